"""Folders are removed while a real study runs: item 9."""

import shutil
from pathlib import Path

from autotune.exporters.document import read
from autotune.model import Outcome
from tests.faults.store_faults import Place, place

__all__ = ["place"]
RUN = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--global-batch", "8",
    "--only", "bucket_cap_mb", "--set", "strategy=ddp", "--trials", "1", "--window", "0.05s",
    "--budget", "15s", "--output", "out/best.yaml",
)  # fmt: skip


def remove_at_once(folder: Path) -> None:
    """Takes `folder` away in one step: no file written meanwhile can stop it."""
    shutil.rmtree(folder.rename(folder.with_name("removed")))


def test_the_outputs_folder_and_the_logs_are_removed(place: Place) -> None:
    place.is_patched = False
    (place.folder / "out").mkdir()
    command = place.start(*RUN)
    command.wait_for(1)
    remove_at_once(place.folder / "out")
    remove_at_once(place.home / "runs")
    command.finish()
    trials = place.trials()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    # The search may have stopped one that had lost.
    ends = [trial.outcome for trial in trials]
    lost = [end for end in ends if end not in (Outcome.COMPLETED, Outcome.PRUNED)]
    assert lost in ([], [Outcome.ENVIRONMENT])
    assert ends.count(Outcome.COMPLETED) > 1
    assert read(place.folder / "out" / "best.yaml").run_id == trials[0].run_id
