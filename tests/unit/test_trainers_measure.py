"""Windows, verdicts and non-finite values, on a process group of one rank."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from autotune.model import ActivationCheckpointing, MeasurementPlan, TrainingSettings
from autotune.model.protocol import FailureKind, Message, Progress, Verdict, WindowDone
from autotune.trainers.channel import Channel
from autotune.trainers.collectives import counted
from autotune.trainers.failures import RankError
from autotune.trainers.measure import measure
from autotune.trainers.parallelize import parallelize
from autotune.trainers.readback import effective
from autotune.trainers.sources import build
from autotune.trainers.step import Trainer
from autotune.trainers.workload import Batch, Context

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(micro_batch=2, accumulation_steps=2, bucket_cap_mb=3)
Clock = Callable[[Trainer, Callable[[int], float]], None]


class Launcher(Channel):
    """Gives the verdicts it was made with, then `go`."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def verdict(self) -> Verdict:
        return self.verdicts.pop(0) if self.verdicts else Verdict.GO


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def trainer(settings: TrainingSettings = SETTINGS, broken_from: int | None = None) -> Trainer:
    """A trainer on one rank; from step `broken_from` on its loss is infinite."""
    workload = build("tiny", "", Context(device=CPU, seed=0))
    loss = workload.loss
    made: list[Trainer] = []

    def broken(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        factor = float("inf") if made[0].steps_done == broken_from else 1.0
        return loss(model, batch) * factor

    workload = replace(workload, loss=broken)
    made.append(Trainer(workload, parallelize(workload, settings, CPU), settings, 0, CPU))
    return made[0]


def test_windows_hold_as_many_steps_as_the_plan_allows() -> None:
    plan = MeasurementPlan(
        min_warmup_steps=2, max_warmup_steps=2, windows=3, window_s=60.0, max_steps_per_window=2
    )
    launcher = Launcher()
    recording = measure(trainer(), plan, launcher)
    assert [window.steps for window in recording.windows] == [2, 2, 2]
    assert [window.samples for window in recording.windows] == [8, 8, 8]
    assert launcher.messages == [
        *(Progress(steps=steps) for steps in range(2)),
        *(WindowDone(window=window) for window in recording.windows),
    ]
    assert len(recording.losses) == len(recording.gradient_norms) == 2 + 6
    assert recording.warmup_s > 0


def test_a_window_has_a_step_even_if_a_step_is_longer() -> None:
    plan = MeasurementPlan(min_warmup_steps=1, max_warmup_steps=1, windows=1, window_s=1e-9)
    assert [window.steps for window in measure(trainer(), plan, Launcher()).windows] == [1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Has the n-th step of a trainer take as many seconds as a function of n says."""

    def install(ran: Trainer, step_s: Callable[[int], float]) -> None:
        now = SimpleNamespace(perf_counter=lambda: sum(map(step_s, range(ran.steps_done))))
        monkeypatch.setattr("autotune.trainers.measure.time", now)

    return install


def test_windows_begin_once_steps_have_settled_and_last_as_planned(clock: Clock) -> None:
    ran = trainer()
    clock(ran, lambda step: (90.0, 20.0, 9.0)[step] if step < 3 else 2.0)
    recording = measure(
        ran, MeasurementPlan(max_warmup_s=100.0, windows=1, window_s=10.0), Launcher()
    )
    assert (recording.warmup_steps, recording.settled) == (6, True)
    assert recording.warmup_s == 90.0 + 20.0 + 9.0 + 3 * 2.0
    assert [(window.steps, window.seconds) for window in recording.windows] == [(5, 10.0)]


def test_a_warm_up_that_does_not_settle_ends_at_its_limit(clock: Clock) -> None:
    ran = trainer()
    clock(ran, lambda step: 0.9**step)
    plan = MeasurementPlan(max_warmup_steps=9, windows=1, window_s=5 * 0.9**7)
    recording = measure(ran, plan, Launcher())
    assert (recording.warmup_steps, recording.settled) == (9, False)
    assert [window.steps for window in recording.windows] == [5]


def test_warm_up_goes_on_while_reserved_memory_grows(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = trainer()
    clock(ran, lambda _: 1.0)
    monkeypatch.setattr(
        "autotune.trainers.measure._reserved_bytes", lambda _: min(ran.steps_done, 6) << 20
    )
    recording = measure(ran, MeasurementPlan(windows=1), Launcher())
    # The sixth step is the last that needed more; three are looked at.
    assert (recording.warmup_steps, recording.settled) == (9, True)


def test_stop_ends_after_the_window_it_answers() -> None:
    plan = MeasurementPlan(min_warmup_steps=1, max_warmup_steps=1, windows=5, window_s=1e-9)
    recording = measure(trainer(), plan, Launcher(Verdict.GO, Verdict.STOP))
    assert [window.index for window in recording.windows] == [0, 1]


@pytest.mark.parametrize("step", [1, 4])
def test_a_loss_that_is_not_finite_is_named_with_its_step(step: int) -> None:
    plan = MeasurementPlan(
        min_warmup_steps=2, max_warmup_steps=2, windows=2, window_s=60.0, max_steps_per_window=2
    )
    with pytest.raises(RankError, match=rf"the loss of step {step} is inf on rank 0") as caught:
        measure(trainer(broken_from=step), plan, Launcher())
    assert caught.value.kind is FailureKind.NON_FINITE


def test_settings_are_read_back_from_what_ran() -> None:
    settings = replace(SETTINGS, activation_checkpointing=ActivationCheckpointing.EVERY_BLOCK)
    ran = trainer(settings)
    ran.step()
    with counted() as collectives:
        ran.step()
    found = effective(ran, collectives)
    expected = {
        "strategy": "ddp", "bucket_cap_mb": 3, "micro_batch": 2, "accumulation_steps": 2,
        "activation_checkpointing": "every_block", "checkpointed_blocks": 2, "backend": "gloo",
        "parameter_dtype": "float32", "compute_dtype": "float32", "reduce_dtype": "float32",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_every_setting_is_read_back_under_its_own_name() -> None:
    """A setting that isn't could be without effect, and nobody would know."""
    ran = trainer()
    with counted() as collectives:
        ran.step()
    found = effective(ran, collectives)
    fsdp_only = {
        "reshard_after_forward", "shard_size", "blocks_per_group", "forward_prefetch",
        "backward_prefetch", "reshard_after_backward", "force_sum_reduction",
    }  # fmt: skip
    names = {field.name for field in fields(TrainingSettings)}
    assert names - fsdp_only - found.keys() == {"binding"}


def test_variables_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_BUFFSIZE", "1048576")
    monkeypatch.setenv("UNRELATED", "1")
    ran = trainer()
    with counted() as collectives:
        ran.step()
    found = effective(ran, collectives)
    assert found["env.NCCL_BUFFSIZE"] == "1048576"
    assert "env.UNRELATED" not in found
