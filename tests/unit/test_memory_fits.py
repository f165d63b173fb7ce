"""Calibration, capacity, and the verdicts that follow."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.model import (
    PRESETS,
    ActivationCheckpointing,
    DeviceKind,
    Gpu,
    Machine,
    TrainingSettings,
)
from autotune.space.memory import (
    UNCALIBRATED,
    Capacity,
    Fit,
    Judge,
    Known,
    MemoryJob,
    PredictedMemory,
    Sample,
    calibrate,
    capacity_of,
    needs_at_least,
    predict,
)
from autotune.space.memory.calibration import LEAST_UNCERTAINTY, MAX_SAMPLES, MOST_UNCERTAINTY
from autotune.space.memory.capacity import ADDRESS_SPACE_BYTES

GIB = 2**30
CPU_JOB = MemoryJob(config=PRESETS["bert-base"], device=DeviceKind.CPU, nodes=1, ranks_per_node=2)
GPU_JOB = replace(CPU_JOB, device=DeviceKind.CUDA, ranks_per_node=8)


def at(micro_batch: int, job: MemoryJob = CPU_JOB) -> PredictedMemory:
    return predict(job, TrainingSettings(micro_batch=micro_batch), {})


def samples(factor: float, extra: float, count: int, job: MemoryJob = CPU_JOB) -> list[Sample]:
    """Measured as a model with another factor and offset would have it."""
    made = []
    for micro_batch in range(1, count + 1):
        one = at(micro_batch, job)
        peak = one.measured_bytes + extra + (factor - 1) * one.scaling_bytes
        made.append(Sample(predicted=one, measured_bytes=round(peak)))
    return made


def off(known: Sequence[Sample], target: Sample) -> float:
    return calibrate(known).correct(target.predicted) / target.predicted.total_bytes - 1


def test_without_samples_the_prediction_stands() -> None:
    assert calibrate([]) == UNCALIBRATED
    assert UNCALIBRATED.correct(at(4)) == at(4).total_bytes


@pytest.mark.parametrize("job", [CPU_JOB, GPU_JOB], ids=["cpu", "cuda"])
def test_many_samples_teach_the_true_factor_and_offset(job: MemoryJob) -> None:
    known = samples(1.3, 0.5 * GIB, 60, job)
    learned = calibrate(known)
    assert learned.factor == pytest.approx(1.3, abs=0.03)
    assert learned.uncertainty < 0.1
    new = at(100, job)
    truth = new.total_bytes + 0.5 * GIB + 0.3 * new.scaling_bytes
    assert learned.correct(new) == pytest.approx(truth, rel=0.05)


def test_one_sample_moves_little_and_more_move_further() -> None:
    known = samples(1.4, 0.0, 12)
    target = known[0]
    truth = target.measured_bytes / target.predicted.total_bytes - 1
    moves = [off(known[:count], target) for count in (1, 4, 12)]
    assert 0 < moves[0] < 0.3 * truth
    assert moves[0] < moves[1] < moves[2]


def test_one_layout_launched_often_is_one_sample() -> None:
    (one,) = samples(1.4, 0.0, 1)
    assert calibrate([one] * 30) == calibrate([one])


def test_the_latest_samples_count() -> None:
    old, new = samples(2.0, 0.0, 2 * MAX_SAMPLES), samples(1.0, 0.0, MAX_SAMPLES)
    assert calibrate([*old, *new]).factor == pytest.approx(1.0, abs=0.01)


@given(st.lists(st.integers(0, 10**12), min_size=5, max_size=5))
def test_a_quarter_of_absurd_peaks_changes_little(peaks: list[int]) -> None:
    good = samples(1.2, 0.0, 20)
    bad = [replace(s, measured_bytes=p) for s, p in zip(good[::4], peaks, strict=True)]
    known = [*(s for i, s in enumerate(good) if i % 4), *bad]
    target = at(40)
    truth = target.total_bytes + 0.2 * target.scaling_bytes
    assert calibrate(known).correct(target) == pytest.approx(truth, rel=0.1)


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 10**13)), max_size=10))
def test_no_sample_breaks_it(pairs: list[tuple[int, int]]) -> None:
    known = [Sample(predicted=at(batch), measured_bytes=peak) for batch, peak in pairs]
    learned = calibrate(known)
    assert LEAST_UNCERTAINTY <= learned.uncertainty <= MOST_UNCERTAINTY
    assert 0.5 <= learned.factor <= 2
    assert learned.correct(at(8)) >= 0
    assert learned.correct(at(16)) >= learned.correct(at(8))


def machine(*gpu_gib: int, memory_gib: float = 64) -> Machine:
    gpus = tuple(Gpu(name="A100", memory_bytes=size * GIB) for size in gpu_gib)
    memory = round(memory_gib * GIB)
    return Machine(instance="x", gpus=gpus, cpu="", cores=8, memory_bytes=memory, numa_nodes=1)


def test_capacity_is_the_smallest_gpu_or_a_share_of_the_host() -> None:
    gpus = capacity_of(machine(80, 40), DeviceKind.CUDA, 2)
    assert gpus is not None
    assert gpus.per_rank_bytes == 40 * GIB
    host = capacity_of(machine(), DeviceKind.CPU, 4)
    assert host is not None
    assert host.per_rank_bytes == 16 * GIB
    assert "4 ranks" in host.source
    limited = capacity_of(machine(), DeviceKind.CPU, 4, address_space_bytes=4 * GIB)
    assert limited is not None
    assert limited.per_rank_bytes == 4 * GIB - ADDRESS_SPACE_BYTES
    assert "ulimit" in limited.describe()
    assert capacity_of(machine(), DeviceKind.CUDA, 1) is None
    assert capacity_of(machine(memory_gib=0), DeviceKind.CPU, 1) is None


def judge(room: float, **known: Sequence[object]) -> Judge:
    capacity = Capacity(per_rank_bytes=round(room), source="a test")
    return Judge(capacity, Known(**known))  # type: ignore[arg-type]


def test_the_verdict_follows_the_margin() -> None:
    size = at(16).total_bytes
    assert judge(1.5 * size).judge(at(16)).fit is Fit.FITS
    assert judge(1.1 * size).judge(at(16)).fit is Fit.NEAR
    assert judge(0.9 * size).judge(at(16)).fit is Fit.NEAR
    cannot = judge(0.5 * size).judge(at(16))
    assert cannot.fit is Fit.CANNOT
    assert "GiB" in cannot.reason
    assert "can't fit into" in cannot.reason
    assert judge(1.5 * size).judge(at(16)).reason == ""


def test_what_needs_as_much_as_an_exhausted_one_cannot_fit_however_much_room_is_predicted() -> None:
    known = judge(100 * at(16).total_bytes, exhausted=[at(16)])
    assert known.judge(at(16)).fit is Fit.CANNOT
    assert known.judge(at(17)).fit is Fit.CANNOT
    assert "ran out of memory" in known.judge(at(17)).reason
    assert known.judge(at(15)).fit is Fit.FITS


def test_needing_more_in_sum_than_an_exhausted_one_is_near() -> None:
    fsdp = predict(CPU_JOB, TrainingSettings(micro_batch=15, gradient_as_bucket_view=True), {})
    failed = at(15)
    bigger = predict(CPU_JOB, TrainingSettings(micro_batch=20, gradient_as_bucket_view=True), {})
    known = judge(100 * failed.total_bytes, exhausted=[failed])
    assert known.judge(fsdp).fit is Fit.FITS
    assert known.judge(bigger).fit is Fit.NEAR


def test_what_needs_no_more_than_a_completed_one_fits_however_little_room_is_predicted() -> None:
    done = Sample(predicted=at(16), measured_bytes=at(16).total_bytes)
    known = judge(1, completed=[done])
    assert known.judge(at(16)).fit is Fit.FITS
    assert known.judge(at(8)).fit is Fit.FITS
    assert known.judge(at(64)).fit is Fit.CANNOT


def test_a_failure_that_a_larger_candidate_survived_says_nothing_of_others() -> None:
    done = Sample(predicted=at(32), measured_bytes=at(32).total_bytes)
    known = judge(100 * at(32).total_bytes, completed=[done], exhausted=[at(16)])
    assert known.judge(at(17)).fit is Fit.FITS


@given(st.integers(1, 256), st.integers(1, 256), st.floats(1e6, 1e12))
def test_more_need_is_never_judged_milder(one: int, two: int, room: float) -> None:
    order = [Fit.FITS, Fit.NEAR, Fit.CANNOT]
    small, large = sorted((one, two))
    known = judge(room, completed=[Sample(predicted=at(4), measured_bytes=2 * GIB)])
    assert order.index(known.judge(at(small)).fit) <= order.index(known.judge(at(large)).fit)


LAYOUTS = st.tuples(st.integers(1, 8), st.booleans(), st.sampled_from(ActivationCheckpointing))


@given(st.lists(LAYOUTS, max_size=30))
def test_what_is_forgotten_changes_no_verdict(
    launched: list[tuple[int, bool, ActivationCheckpointing]],
) -> None:
    done = [
        predict(
            CPU_JOB,
            TrainingSettings(
                micro_batch=batch,
                activation_checkpointing=checkpointing,
                gradient_as_bucket_view=views,
            ),
            {},
        )
        for batch, views, checkpointing in launched
    ]
    known = Known(Sample(predicted=one, measured_bytes=one.measured_bytes) for one in done)
    for predicted in [*done, *(at(batch) for batch in range(1, 10))]:
        shown = any(needs_at_least(one, predicted) for one in done)
        assert shown == any(needs_at_least(one, predicted) for one in known.demanding)
    assert all(
        one == other or not needs_at_least(one, other)
        for one in known.demanding
        for other in known.demanding
    )


def test_many_trials_of_growing_demand_leave_little_to_look_at() -> None:
    known = Known(samples(1.0, 0.0, 3 * MAX_SAMPLES))
    assert len(known.samples) == MAX_SAMPLES
    assert known.demanding == [at(3 * MAX_SAMPLES)]
