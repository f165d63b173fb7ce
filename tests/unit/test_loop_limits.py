"""How long trials may take, by what is known of the baseline."""

from dataclasses import dataclass, field

import pytest

from autotune.loop.limits import collective_timeout_s, first_step_limit_s, time_limit_s
from autotune.model import TrainingSettings, Trial
from tests.conformance.records import a_measurement, a_trial

SETTINGS = TrainingSettings(micro_batch=1)


@dataclass
class Known:
    """Of a ledger, what limits are made from."""

    baselines: list[Trial] = field(default_factory=list)


KNOWN = Known(
    [a_trial(seconds=s, measurement=a_measurement(build_s=s, warmup_s=1.0)) for s in (9.0, 4.0)]
)


@pytest.mark.parametrize(
    ("known", "remaining_s", "limit_s"),
    [
        (Known(), None, 600),
        (Known(), 300.0, 300),
        (Known(), 5.0, 60),
        (KNOWN, None, 90),
        (KNOWN, 10_000.0, 90),
        (KNOWN, 70.0, 70),
        (Known([a_trial(seconds=1.0)]), None, 60),
    ],
)
def test_a_trial_has_ten_times_the_baselines_time(
    known: Known, remaining_s: float | None, limit_s: float
) -> None:
    assert time_limit_s(known, remaining_s) == limit_s  # type: ignore[arg-type]


def test_the_first_step_has_three_times_the_baselines_time_and_more_if_it_compiles() -> None:
    assert first_step_limit_s(Known(), SETTINGS) == 300  # type: ignore[arg-type]
    assert first_step_limit_s(KNOWN, SETTINGS) == 20 + 3 * 10  # type: ignore[arg-type]
    compiled = TrainingSettings(micro_batch=1, compile=True)
    assert first_step_limit_s(KNOWN, compiled) == 20 + 3 * 10 + 300  # type: ignore[arg-type]


def test_collectives_wait_a_little_longer_than_the_launcher_and_a_minute_at_most() -> None:
    assert collective_timeout_s(22.0) == 32.0
    assert collective_timeout_s(500.0) == 60.0
