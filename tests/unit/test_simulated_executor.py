"""The simulated executor: seeded, on a clock of its own, obedient like real ranks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from threading import Event
from typing import Any

import pytest

from autotune.executors.base import Launch, LaunchEnd
from autotune.executors.landscapes import (
    Drift,
    DriftKind,
    Each,
    Effects,
    Failure,
    Landscape,
    Noise,
    Rule,
)
from autotune.executors.simulated import SimulatedExecutor, VirtualClock
from autotune.model import (
    GIB,
    DeviceKind,
    Gpu,
    Machine,
    MeasurementPlan,
    Outcome,
    ShardingStrategy,
    SimulatedMeasurement,
    TrainingSettings,
    TrialSpec,
    Window,
)
from autotune.model.protocol import Verdict

MACHINE = Machine(
    instance="simulated:x", gpus=(), cpu="x", cores=2, memory_bytes=16 * GIB, numa_nodes=1
)
NOISY = Noise(launch_percent=4, window_percent=2, step_percent=10)
FSDP = TrainingSettings(
    micro_batch=16, strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True
)


def go(window: Window) -> Verdict:
    del window
    return Verdict.GO


def launch(number: int = 0, seed: int = 0, limit_s: float = 60.0, **spec: Any) -> Launch:
    return Launch(
        spec=TrialSpec(
            **{
                "trial_id": f"run-{number:04d}",
                "workload": "tiny",
                "settings": TrainingSettings(micro_batch=16),
                "device": DeviceKind.CPU,
                "seed": seed,
                **spec,
            }
        ),
        nodes=1,
        ranks_per_node=2,
        directory=Path("never made"),
        time_limit_s=limit_s,
    )


def run(
    landscape: Landscape,
    one: Launch | None = None,
    *,
    on_window: Callable[[Window], Verdict] = go,
    clock: VirtualClock | None = None,
    machine: Machine = MACHINE,
) -> LaunchEnd:
    executor = SimulatedExecutor(landscape, machine, clock=clock)
    return executor.run(one or launch(), on_window, Event())


def rates(end: LaunchEnd) -> list[float]:
    assert end.measurement is not None
    return [window.samples_per_second for window in end.measurement.windows]


def test_without_noise_the_true_speed_is_measured() -> None:
    end = run(Landscape(name="x", samples_per_second=500, speed=Effects(rules=(Rule(percent=10),))))
    assert end.outcome is Outcome.COMPLETED
    assert rates(end) == pytest.approx([550] * 5)
    assert isinstance(end.measurement, SimulatedMeasurement)
    assert end.measurement.landscape == "x"


def test_the_same_seed_and_number_say_the_same_in_any_order_and_run() -> None:
    landscape = Landscape(name="x", noise=NOISY)
    there = [run(landscape, launch(n)) for n in range(5)]
    back = [run(landscape, launch(n, trial_id=f"other-run-{n:04d}")) for n in reversed(range(5))]
    assert there == back[::-1]
    assert len({tuple(rates(end)) for end in there}) == 5


@pytest.mark.parametrize("other", [launch(seed=1), launch(number=1)])
def test_another_seed_or_number_says_something_else(other: Launch) -> None:
    landscape = Landscape(name="x", noise=NOISY)
    assert rates(run(landscape)) != rates(run(landscape, other))
    assert rates(run(landscape)) != rates(run(replace(landscape, seed=1)))


def test_noise_has_the_size_that_it_says() -> None:
    landscape = Landscape(name="x", samples_per_second=1, noise=Noise(launch_percent=4))
    means = [rates(run(landscape, launch(n, limit_s=1e9)))[0] for n in range(2000)]
    assert stdev(means) == pytest.approx(0.04, rel=0.1)
    windows = Landscape(name="x", samples_per_second=1, noise=Noise(window_percent=4))
    plan = MeasurementPlan(windows=2000)
    assert stdev(rates(run(windows, launch(plan=plan, limit_s=1e9)))) == pytest.approx(
        0.04, rel=0.1
    )


def test_noise_of_steps_shrinks_with_their_number() -> None:
    landscape = Landscape(name="x", samples_per_second=3200, noise=Noise(step_percent=17))
    plan = MeasurementPlan(windows=2000, window_s=1.0)  # 100 steps in each
    spread = stdev(rates(run(landscape, launch(plan=plan, limit_s=1e9)))) / 3200
    assert spread == pytest.approx(0.017, rel=0.15)


@pytest.mark.parametrize(
    ("verdict", "after", "outcome"),
    [
        (Verdict.STOP, 2, Outcome.PRUNED),
        (Verdict.ENOUGH, 2, Outcome.COMPLETED),
        (Verdict.STOP, 5, Outcome.COMPLETED),
    ],
)
def test_verdicts_end_a_trial_as_they_end_a_real_one(
    verdict: Verdict, after: int, outcome: Outcome
) -> None:
    clock = VirtualClock()
    end = run(
        Landscape(name="x", launch_s=0, samples_per_second=6400),
        launch(plan=MeasurementPlan(windows=5, window_s=1.0, min_warmup_steps=1)),
        on_window=lambda window: verdict if window.index == after - 1 else Verdict.GO,
        clock=clock,
    )
    assert end.outcome is outcome
    assert len(rates(end)) == after
    assert clock() == pytest.approx(after + 0.005)
    assert bool(end.reason) == (outcome is Outcome.PRUNED)


def test_the_clock_passes_by_launch_warm_up_and_windows() -> None:
    clock = VirtualClock(now_s=100.0)
    plan = MeasurementPlan(min_warmup_steps=10, max_warmup_steps=10, windows=3, window_s=2.0)
    run(Landscape(name="x", samples_per_second=32, launch_s=7), launch(plan=plan), clock=clock)
    assert clock() == pytest.approx(100 + 7 + 10 + 3 * 2)


def test_a_cancelled_trial_ends_without_a_result() -> None:
    cancel = Event()

    def stop(window: Window) -> Verdict:
        del window
        cancel.set()
        return Verdict.STOP

    end = SimulatedExecutor(Landscape(name="x"), MACHINE).run(launch(), stop, cancel)
    assert (end.outcome, end.measurement) == (Outcome.CANCELLED, None)
    end = SimulatedExecutor(Landscape(name="x"), MACHINE).run(launch(), go, cancel)
    assert end.outcome is Outcome.CANCELLED


FAILURES = [kind for kind in Outcome if kind.is_infeasible or not kind.is_final]


@pytest.mark.parametrize("kind", [kind for kind in FAILURES if kind is not Outcome.CANCELLED])
def test_every_kind_of_failure_can_be_had(kind: Outcome) -> None:
    landscape = Landscape(name="x", failures=(Failure(outcome=kind, after_windows=2),))
    seen: list[Window] = []

    def count(window: Window) -> Verdict:
        seen.append(window)
        return Verdict.GO

    end = run(landscape, on_window=count)
    assert end.outcome is kind
    assert end.reason.startswith("simulated: ")
    assert end.measurement is None
    assert len(seen) == 2


def test_a_failure_after_more_windows_than_planned_comes_after_the_last() -> None:
    landscape = Landscape(
        name="x", failures=(Failure(outcome=Outcome.NO_METRIC, after_windows=99),)
    )
    assert run(landscape).outcome is Outcome.NO_METRIC


def test_a_hang_costs_the_time_limit_and_a_crash_does_not() -> None:
    for outcome, cost in ((Outcome.HUNG, 60.0), (Outcome.CRASHED, 0.25)):
        clock = VirtualClock()
        run(Landscape(name="x", failures=(Failure(outcome=outcome),)), clock=clock)
        assert cost <= clock() < cost + 1


def test_a_trial_too_slow_for_its_limit_is_ended_there() -> None:
    clock = VirtualClock()
    end = run(Landscape(name="x", samples_per_second=1), clock=clock)
    assert end.outcome is Outcome.TIMED_OUT
    assert clock() == 60.0


def test_chance_decides_on_launches_or_on_candidates() -> None:
    def share(each: Each) -> float:
        failure = Failure(outcome=Outcome.CRASHED, percent=33, each=each)
        landscape = Landscape(name="x", failures=(failure,))
        ends = [run(landscape, launch(n)).outcome for n in range(300)]
        return ends.count(Outcome.CRASHED) / 300

    assert share(Each.LAUNCH) == pytest.approx(0.33, abs=0.1)
    assert share(Each.CANDIDATE) in (0.0, 1.0)


def test_failures_have_conditions() -> None:
    failure = Failure(outcome=Outcome.CRASHED, when={"strategy": ("fsdp_full",), "NCCL_X": "1"})
    landscape = Landscape(name="x", failures=(failure,))
    assert run(landscape, launch(settings=FSDP)).outcome is Outcome.COMPLETED
    assert run(landscape, launch(environment={"NCCL_X": "1"})).outcome is Outcome.COMPLETED
    both = launch(settings=FSDP, environment={"NCCL_X": "1"})
    assert run(landscape, both).outcome is Outcome.CRASHED


def test_what_needs_more_memory_than_there_is_fails() -> None:
    gpu = Gpu(name="x", memory_bytes=20 * GIB)
    machine = replace(MACHINE, gpus=(gpu, gpu))
    trial = launch(
        workload="bert-large", settings=TrainingSettings(micro_batch=1), device=DeviceKind.CUDA
    )
    enough = run(Landscape(name="x"), trial, machine=machine)
    assert enough.measurement is not None
    peak = enough.measurement.peak_memory_bytes
    assert len(peak) == 2
    assert GIB < max(peak) < 20 * GIB
    end = run(Landscape(name="x", memory_percent=1000), trial, machine=machine)
    assert end.outcome is Outcome.OUT_OF_MEMORY
    assert "20.0 GiB per rank" in end.reason


@pytest.mark.parametrize(
    ("drift", "at_s", "factor"),
    [
        (Drift(kind=DriftKind.LINEAR, percent=-10), 7200, 0.81),
        (Drift(kind=DriftKind.STEP, percent=-20, after_s=100), 99, 1.0),
        (Drift(kind=DriftKind.STEP, percent=-20, after_s=100), 100, 0.8),
        (Drift(kind=DriftKind.SINE, percent=5, period_s=400), 100, 1.05),
        (Drift(kind=DriftKind.NONE, percent=5), 100, 1.0),
    ],
)
def test_drift_follows_the_clock(drift: Drift, at_s: float, factor: float) -> None:
    landscape = Landscape(name="x", drift=drift, launch_s=0)
    plan = MeasurementPlan(windows=1, window_s=0.001, min_warmup_steps=1)
    end = run(landscape, launch(plan=plan), clock=VirtualClock(now_s=at_s))
    assert rates(end) == pytest.approx([1000 * factor], rel=1e-3)


def test_what_trains_differently_shows_other_losses() -> None:
    landscape = Landscape(name="x", losses=(Rule(when={"strategy": "fsdp_full"}, percent=20),))
    plain, other = run(landscape).measurement, run(landscape, launch(settings=FSDP)).measurement
    assert plain is not None
    assert other is not None
    assert other.losses[0] == pytest.approx(1.2 * plain.losses[0])
    assert other.gradient_norms[0] == pytest.approx(1.2 * plain.gradient_norms[0])
    assert run(Landscape(name="x"), launch(settings=FSDP)).measurement != other


def test_settings_read_back_as_they_were_asked_for() -> None:
    measurement = run(Landscape(name="x"), launch(settings=FSDP)).measurement
    assert measurement is not None
    assert measurement.effective["strategy"] == "fsdp_full"
    assert measurement.effective["reshard_after_forward"] is True
    assert "bucket_cap_mb" not in measurement.effective
