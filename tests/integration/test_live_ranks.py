"""Trials that run in the ranks of the trial before: when they may, and that they measure the same.

No GPU has run these; what is shown here is shown with Gloo.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from autotune.executors import live_ranks
from autotune.executors.base import Launch, LaunchEnd
from autotune.executors.local import RANK_COMMAND, LocalExecutor
from autotune.executors.rank_starter import RankStarter
from autotune.executors.watch import Limits
from autotune.model import (
    Binding,
    DeviceKind,
    Machine,
    Measurement,
    MeasurementPlan,
    Outcome,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
)
from autotune.model.protocol import Verdict

FAKE = (sys.executable, str(Path(__file__).parents[1] / "ranks" / "fake.py"), "relay")
MACHINE = Machine(
    instance="local-test-4c", gpus=(), cpu="test", cores=4, memory_bytes=2**30, numa_nodes=1
)
LIMITS = Limits(start_s=30.0, cause_s=1.0, grace_s=0.5, exit_s=2.0, term_s=0.3)
LAYOUTS = {
    "ddp": TrainingSettings(micro_batch=4),
    "buckets": TrainingSettings(micro_batch=4, bucket_cap_mb=1, gradient_as_bucket_view=True),
    "accumulation": TrainingSettings(micro_batch=1, accumulation_steps=4),
    "fsdp_full": TrainingSettings(
        strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True, micro_batch=4
    ),
    "fsdp_grad_op": TrainingSettings(
        strategy=ShardingStrategy.FSDP_GRAD_OP, reshard_after_forward=False, micro_batch=4
    ),
}


class Launcher:
    """Launches trials one after the other with one executor."""

    def __init__(self, folder: Path, executor: LocalExecutor) -> None:
        self.folder = folder
        self.executor = executor
        self.trials = 0

    def __call__(
        self,
        trial: str = "",
        settings: TrainingSettings = LAYOUTS["ddp"],
        *,
        environment: dict[str, str] | None = None,
        fresh: bool = False,
    ) -> LaunchEnd:
        spec = TrialSpec(
            trial_id=trial,
            workload="tiny",
            settings=settings,
            device=DeviceKind.CPU,
            environment=environment or {},
            plan=MeasurementPlan(
                min_warmup_steps=2, max_warmup_steps=2, windows=2, max_steps_per_window=1
            ),
        )
        self.trials += 1
        launch = Launch(
            spec=spec,
            nodes=1,
            ranks_per_node=2,
            directory=self.folder / f"trial-{self.trials}",
            time_limit_s=60,
            fresh=fresh,
        )
        with pytest.MonkeyPatch.context() as patch:
            # It changes from test to test, and another environment is another warm parent.
            patch.delenv("PYTEST_CURRENT_TEST")
            return self.executor.run(launch, lambda _window: Verdict.GO, Event())

    def pids(self) -> list[int]:
        """Of the ranks that ran the last trial, by what they wrote to its logs."""
        trial = f"trial-{self.trials}"
        logs = [(self.folder / trial / f"rank-{rank}.log").read_text() for rank in (0, 1)]
        found = [re.fullmatch(rf"runs {trial} as (\d+), live: \w+\n", log) for log in logs]
        assert all(found), logs
        return [int(match[1]) for match in found if match]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launcher]:
    starter = RankStarter(bare=True)
    with LocalExecutor(
        MACHINE, rank_command=FAKE, limits=LIMITS, starter=starter, live=True
    ) as executor:
        yield Launcher(tmp_path, executor)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def completed(end: LaunchEnd) -> None:
    assert end.outcome is Outcome.COMPLETED, f"{end.reason}\n{end.log_tail}"


def test_ranks_stay_for_trials_that_fit_and_write_to_each_ones_log(launch: Launcher) -> None:
    completed(launch())
    first = launch.pids()
    for settings in LAYOUTS.values():
        completed(launch(settings=settings))
        assert launch.pids() == first
    launch.executor.close()
    assert not any(alive(pid) for pid in first)


@pytest.mark.parametrize(
    ("settings", "environment", "fresh"),
    [
        (LAYOUTS["ddp"], {"NCCL_ALGO": "Ring"}, False),
        (TrainingSettings(micro_batch=4, binding=Binding.NUMA), {}, False),
        (LAYOUTS["ddp"], {}, True),
    ],
    ids=["environment", "binding", "fresh"],
)
def test_a_trial_that_fits_no_live_ranks_ends_them(
    launch: Launcher, settings: TrainingSettings, environment: dict[str, str], fresh: bool
) -> None:
    completed(launch())
    before = launch.pids()
    completed(launch(settings=settings, environment=environment, fresh=fresh))
    after = launch.pids()
    assert not set(before) & set(after)
    assert not any(alive(pid) for pid in before)
    assert any(alive(pid) for pid in after) is not fresh, "a fresh launch leaves nothing behind"


def test_a_failure_in_live_ranks_is_run_again_in_fresh_ones(
    launch: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(live_ranks.MAX_FAILURES):
        completed(launch())
        end = launch("fail")
        assert end.outcome is Outcome.ENVIRONMENT
        assert "out_of_memory in ranks that had run 1 before" in end.reason
        assert "no memory left" in end.reason
        end = launch("fail")
        assert end.outcome is Outcome.OUT_OF_MEMORY
    assert "every trial starts ranks of its own: 3 failed in live ones" in caplog.text
    completed(launch())
    assert not any(alive(pid) for pid in launch.pids())


def test_a_rank_that_died_while_it_waited_costs_no_trial(launch: Launcher) -> None:
    completed(launch())
    before = launch.pids()
    os.kill(before[1], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive(before[1]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    completed(launch())
    assert not set(before) & set(launch.pids())
    assert not alive(before[0])


@pytest.mark.parametrize("trial", ["child", "leave"])
def test_ranks_that_left_something_or_do_not_want_to_stay_are_ended(
    launch: Launcher, trial: str
) -> None:
    completed(launch(trial))
    before = launch.pids()
    assert not any(alive(pid) for pid in before)
    completed(launch())
    assert not set(before) & set(launch.pids())


def test_ranks_run_a_limited_number_of_trials(
    launch: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_ranks, "MAX_TRIALS", 2)
    pids = []
    for _ in range(4):
        completed(launch())
        pids.append(launch.pids())
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_on_a_cpu_ranks_stay_only_if_asked(tmp_path: Path) -> None:
    starter = RankStarter(bare=True)
    with LocalExecutor(MACHINE, rank_command=FAKE, limits=LIMITS, starter=starter) as executor:
        launch = Launcher(tmp_path, executor)
        completed(launch())
        assert not any(alive(pid) for pid in launch.pids())


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with LocalExecutor(rank_command=RANK_COMMAND, live=True) as executor:
        yield Launcher(tmp_path_factory.mktemp("real"), executor)


def measured(end: LaunchEnd) -> Measurement:
    completed(end)
    assert isinstance(end.measurement, Measurement)
    return end.measurement


def test_live_ranks_compute_what_fresh_ones_do(real: Launcher) -> None:
    fresh = {name: measured(real(settings=s, fresh=True)) for name, s in LAYOUTS.items()}
    # Each follows another one, and the first and the last themselves too.
    names = ["ddp", *LAYOUTS, "fsdp_grad_op"]
    live = [measured(real(settings=LAYOUTS[name])) for name in names]
    assert [m.live for m in live] == [False] + [True] * (len(names) - 1)
    for name, measurement in zip(names, live, strict=True):
        expected = fresh[name]
        assert not expected.live
        assert measurement.losses == expected.losses, name
        assert measurement.gradient_norms == expected.gradient_norms, name
        assert measurement.effective == expected.effective, name
        assert measurement.versions == expected.versions, name
        for peak, usual in zip(
            measurement.peak_memory_bytes, expected.peak_memory_bytes, strict=True
        ):
            assert abs(peak - usual) < 0.1 * usual, name
        assert 0 < measurement.build_s < 30


def test_a_hybrid_trial_is_the_last_of_its_ranks(real: Launcher) -> None:
    hybrid = TrainingSettings(
        strategy=ShardingStrategy.HYBRID, shard_size=1, reshard_after_forward=True, micro_batch=4
    )
    real(fresh=True)
    assert not measured(real()).live
    assert measured(real(settings=hybrid)).live
    assert not measured(real()).live
