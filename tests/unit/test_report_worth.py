"""What knobs were worth: intervals that hold, and no claim where the trials can't tell."""

import math
import random
from collections.abc import Callable, Sequence

import pytest

from autotune.model import Candidate, KnobValue, Trial, Window
from autotune.model.outcome import Outcome
from autotune.model.trial import Phase
from autotune.report.readings import readings
from autotune.report.worth import Finding, Span, Worth, worth
from tests.conformance.records import a_measurement, a_trial

BASE: dict[str, KnobValue] = {
    "strategy": "ddp", "accumulation_steps": 1, "bucket_cap_mb": "default",
    "activation_checkpointing": "none",
}  # fmt: skip
VALUES: dict[str, list[KnobValue]] = {
    "strategy": ["ddp", "fsdp_full", "hybrid"],
    "accumulation_steps": [1, 2, 4],
    "bucket_cap_mb": ["default", 5, 100],
    "activation_checkpointing": ["none", "every_block"],
}
SEEDS = range(60)
Truth = Callable[[Candidate], float]
"""log(samples/s)."""


def launched(
    candidates: Sequence[Candidate], truth: Truth, *, noise: float = 0.0, seed: int = 0
) -> list[Trial]:
    """A trial of each, the first three of the baseline."""
    rng = random.Random(seed)
    trials = []
    for number, candidate in enumerate([Candidate(BASE)] * 3 + list(candidates)):
        rate = math.exp(truth(candidate) + rng.gauss(0, noise))
        windows = tuple(
            Window(index=i, steps=10, samples=100, seconds=100 / rate) for i in range(3)
        )
        trials.append(
            a_trial(
                number=number,
                phase=Phase.BASELINE if number < 3 else Phase.SEARCH,
                candidate=candidate,
                seconds=1.0,
                outcome=Outcome.COMPLETED,
                measurement=a_measurement(windows=windows, allocator_retries=0),
            )
        )
    return trials


def worth_of(trials: Sequence[Trial]) -> Worth:
    found = worth(readings(trials), Candidate(BASE))
    assert found
    return found


def but(**changes: KnobValue) -> Candidate:
    return Candidate({**BASE, **changes})


def drawn(seed: int, count: int = 25) -> list[Candidate]:
    rng = random.Random(f"candidates:{seed}")
    return [Candidate({n: rng.choice(v) for n, v in VALUES.items()}) for _ in range(count)]


def effects(seed: int, size: float) -> dict[tuple[str, KnobValue], float]:
    rng = random.Random(f"effects:{seed}")
    return {
        (name, value): rng.gauss(0, size)
        for name, values in VALUES.items()
        for value in values
        if value != BASE[name]
    }


def spans(found: Worth) -> dict[tuple[str, str], Span]:
    return {(k.knob, v.value): v.effect for k in found.knobs for v in k.values}


@pytest.mark.parametrize("size", [0.0, 0.03, 0.2])
def test_intervals_hold_and_little_is_claimed_of_nothing(size: float) -> None:
    held = claimed = total = 0
    for seed in SEEDS:
        true = effects(seed, size)

        def truth(candidate: Candidate, true: dict[tuple[str, KnobValue], float] = true) -> float:
            return 7 + sum(true.get(pair, 0.0) for pair in candidate.items())

        trials = launched(drawn(seed), truth, noise=0.035, seed=seed)
        for (name, text), span in spans(worth_of(trials)).items():
            (value,) = [v for v in VALUES[name] if str(v) == text]
            held += span.low <= math.expm1(true[name, value]) <= span.high
            claimed += span.finding in (Finding.FASTER, Finding.SLOWER)
            total += 1
    assert total > 6 * len(SEEDS)
    assert held / total > 0.92
    if not size:
        assert claimed / total < 0.05


def test_a_large_effect_is_found_and_ranked_first() -> None:
    def truth(candidate: Candidate) -> float:
        slow = 0.4 * (candidate["strategy"] == "hybrid")
        return 7 - slow - 0.02 * (candidate["bucket_cap_mb"] == 5)

    for seed in range(10):
        found = worth_of(launched(drawn(seed), truth, noise=0.02, seed=seed))
        first = found.knobs[0]
        assert (first.knob, first.worst) == ("strategy", "hybrid")
        assert first.importance.finding is Finding.FASTER
        assert spans(found)["strategy", "hybrid"].high < -0.2


def test_one_noisy_launch_is_not_known() -> None:
    trials = launched([but(bucket_cap_mb=100)], lambda _: 7.0, noise=0.05, seed=1)
    (knob,) = worth_of(trials).knobs
    assert knob.importance.finding is Finding.UNKNOWN
    assert knob.importance.low < 0 < knob.importance.high


def test_no_difference_is_said_only_of_what_was_measured_well() -> None:
    often = [but(accumulation_steps=2)] * 40 + [Candidate(BASE)] * 40
    found = spans(worth_of(launched(often, lambda _: 7.0, noise=0.005)))
    assert found["accumulation_steps", "2"].finding is Finding.LITTLE


def test_the_model_alone_says_of_nothing_that_it_makes_no_difference() -> None:
    """All else was shown to do little, so it expects little of what was hardly launched as well."""
    for seed in range(6):
        found = worth_of(launched(drawn(seed, 40), lambda _: 7.0, noise=0.02, seed=seed))
        shown = [span for span in spans(found).values() if max(-span.low, span.high) < 0.01]
        assert shown
        assert all(span.finding is not Finding.LITTLE for span in shown)


def test_a_pair_that_does_more_together_is_seen() -> None:
    def truth(candidate: Candidate) -> float:
        both = candidate["strategy"] == "hybrid" and candidate["accumulation_steps"] == 4
        return 7 + 0.3 * both

    found = worth_of(launched(drawn(3, 60), truth, noise=0.01))
    first = found.pairs[0]
    assert {first.one, first.other} == {"strategy=hybrid", "accumulation_steps=4"}
    assert first.effect.finding is Finding.FASTER


def test_values_that_always_come_together_are_one() -> None:
    sharded = [
        Candidate({"strategy": "fsdp_full", "accumulation_steps": 2, "reshard": value})
        for value in (True, False)
    ]
    found = worth_of(launched(sharded, lambda _: 7.0))
    values = {(k.knob, v.value, v.instead_of) for k in found.knobs for v in k.values}
    assert values == {
        ("strategy", "fsdp_full (with accumulation_steps=2)", "ddp"),
        ("reshard", "false", "true"),
    }


def test_failures_and_nonsense_are_no_readings() -> None:
    good = launched([but(strategy="hybrid")], lambda _: 7.0)
    empty = a_measurement(windows=())
    zero = a_measurement(windows=(Window(index=0, steps=1, samples=1, seconds=0.0),))
    bad = [
        a_trial(number=9 + i, candidate=but(bucket_cap_mb=5), outcome=outcome, measurement=m)
        for i, (outcome, m) in enumerate(
            [(Outcome.COMPLETED, empty), (Outcome.PRUNED, zero), (Outcome.CRASHED, None)]
        )
    ]
    assert readings([*good, *bad]).points == readings(good).points
    assert worth(readings(good[:3]), Candidate(BASE)) is None
    assert worth(readings([]), None) is None
