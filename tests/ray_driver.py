"""A driver of its own: `python tests/ray_driver.py ADDRESS BEHAVIOUR MARK` runs one trial."""

import sys
import tempfile
from pathlib import Path
from threading import Event

from autotune.executors.base import Launch
from autotune.executors.ray.actor import AgentOptions
from autotune.executors.ray.executor import RayExecutor
from autotune.model import DeviceKind, TrainingSettings, TrialSpec
from autotune.model.protocol import Verdict

FAKE = Path(__file__).parent / "ranks" / "fake.py"
COMMAND = (sys.executable, str(FAKE), "asked")


def launch(behaviour: str, directory: Path, *, mark: str = "", limit_s: float = 60.0) -> Launch:
    """Of two nodes with a rank each, which do as `behaviour` of ranks/fake.py says."""
    return Launch(
        spec=TrialSpec(
            trial_id="t",
            workload="tiny",
            settings=TrainingSettings(micro_batch=1),
            environment={"FAKE_BEHAVIOUR": behaviour, "FAKE_MARK": mark},
            device=DeviceKind.CPU,
        ),
        nodes=2,
        ranks_per_node=1,
        directory=directory,
        time_limit_s=limit_s,
    )


if __name__ == "__main__":
    address, behaviour, mark = sys.argv[1:]
    options = AgentOptions(cold=True, rank_command=COMMAND)
    with (
        tempfile.TemporaryDirectory() as folder,
        RayExecutor(2, address=address, options=options) as executor,
    ):
        trial = launch(behaviour, Path(folder) / "trial", mark=mark)
        print(executor.run(trial, lambda _: Verdict.GO, Event()))
