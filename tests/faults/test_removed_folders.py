"""Folders are removed while a real study runs: item 9."""

import shutil

from autotune.exporters.document import read
from tests.faults.store_faults import Place, place

__all__ = ["place"]
RUN = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--only", "bucket_cap_mb",
    "--set", "strategy=ddp", "--trials", "1", "--window", "0.05s", "--budget", "30s",
    "--output", "out/best.yaml",
)  # fmt: skip


def test_the_outputs_folder_and_the_logs_are_removed(place: Place) -> None:
    place.is_patched = False
    (place.folder / "out").mkdir()
    command = place.start(*RUN)
    command.wait_for(1)
    shutil.rmtree(place.folder / "out")
    shutil.rmtree(place.home / "runs")
    command.finish()
    trials = place.trials()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert sum(trial.scored is not None for trial in trials) >= len(trials) - 1
    assert read(place.folder / "out" / "best.yaml").run_id == trials[0].run_id
