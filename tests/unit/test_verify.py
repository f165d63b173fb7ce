"""What launching a saved configuration again says, on trials whose speed is known."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from autotune.cli.verify import check_differs
from autotune.errors import UserError
from autotune.executors.base import LaunchEnd
from autotune.exporters import from_yaml, to_yaml
from autotune.loop.verify import Arm, Verification, Verified, Verifier, judge, restamped
from autotune.model import (
    BestConfiguration,
    Conclusion,
    DeviceKind,
    MeasurementPlan,
    Outcome,
    Ratio,
    TrainingSettings,
)
from autotune.space.facts import Facts
from tests.bests import best_here
from tests.fakes import FormulaExecutor, Speed

PLAIN = TrainingSettings(micro_batch=4, accumulation_steps=2)


def ratio(low: float, high: float) -> Ratio:
    return Ratio(estimate=(low * high) ** 0.5, low=low, high=high, confidence=0.95)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (ratio(1.06, 1.12), Verification.HOLDS),
        (ratio(1.01, 1.09), Verification.HOLDS),
        (ratio(0.98, 1.09), Verification.NOT_KNOWN),
        (ratio(0.90, 0.98), Verification.NO_LONGER_HOLDS),
        # Faster, and yet by less than what was claimed.
        (ratio(1.01, 1.04), Verification.NO_LONGER_HOLDS),
    ],
)
def test_the_interval_decides(now: Ratio, expected: Verification) -> None:
    assert judge(now, ratio(1.05, 1.15))[0] is expected


def test_without_a_claim_faster_is_enough() -> None:
    assert judge(ratio(1.01, 1.04), None)[0] is Verification.HOLDS


def test_a_baseline_that_a_study_saved_in_haste_has_nothing_to_verify() -> None:
    best = best_here(conclusion="unconfirmed")
    baseline = Arm(name="baseline", settings=best.settings, environment={})
    with pytest.raises(UserError, match=r"best.yaml: has the baseline's own settings"):
        check_differs(best, baseline, Path("best.yaml"))
    check_differs(best, replace(baseline, environment={"NCCL_ALGO": "ring"}), Path("best.yaml"))
    check_differs(best_here({"bucket_cap_mb": 50}), baseline, Path("best.yaml"))


def verified(
    speed: Speed, folder: Path, *, noise: float = 0.01, seed: int = 0
) -> tuple[Verified, FormulaExecutor]:
    executor = FormulaExecutor(speed, noise=noise, seed=seed)
    found = Verifier(
        best=best_here({"bucket_cap_mb": 50}),
        baseline=Arm(name="baseline", settings=PLAIN, environment={}), workload=None,
        executor=executor, folder=folder, rounds=5, plan=MeasurementPlan(), cancel=Event(),
        on_launch=nothing,
    ).run()  # fmt: skip
    return found, executor


def nothing(number: int, arm: str, end: LaunchEnd) -> None:
    del number, arm, end


def faster(factor: float) -> Speed:
    return lambda settings: 100.0 * (factor if settings.bucket_cap_mb else 1.0)


def test_both_are_launched_in_rounds_in_random_order(tmp_path: Path) -> None:
    found, executor = verified(faster(1.1), tmp_path)
    assert found.verification is Verification.HOLDS
    arms = [launch.spec.settings.bucket_cap_mb is not None for launch in executor.launches]
    assert len(arms) == 10
    pairs = list(zip(arms[::2], arms[1::2], strict=True))
    assert all(sum(pair) == 1 for pair in pairs)
    assert len(set(pairs)) == 2
    reading = found.reading("winner")
    assert reading is not None
    assert reading.launches == 5


def test_findings_over_many_seeds(tmp_path: Path) -> None:
    """Claimed are 5 to 15 %: 10 % is seen to hold, no gain at all is never said to."""
    seeds = range(60)
    of = {
        factor: [verified(faster(factor), tmp_path, seed=s)[0].verification for s in seeds]
        for factor in (1.1, 1.0, 0.9)
    }
    assert of[1.1].count(Verification.HOLDS) >= 55
    assert of[1.0].count(Verification.HOLDS) <= 5
    assert of[1.0].count(Verification.NO_LONGER_HOLDS) >= 50
    assert of[0.9].count(Verification.NO_LONGER_HOLDS) == 60
    noisy = [verified(faster(1.1), tmp_path, noise=0.3, seed=s)[0].verification for s in seeds]
    assert noisy.count(Verification.NOT_KNOWN) >= 45


def test_a_winner_that_fails_no_longer_holds(tmp_path: Path) -> None:
    def runs_out(settings: TrainingSettings) -> float | Outcome:
        return Outcome.OUT_OF_MEMORY if settings.bucket_cap_mb else 100.0

    found, _ = verified(runs_out, tmp_path)
    assert found.verification is Verification.NO_LONGER_HOLDS
    assert "winner ended as out_of_memory" in found.reason


@pytest.mark.parametrize("outcome", [Outcome.ENVIRONMENT, Outcome.CANCELLED])
def test_a_machine_that_fails_leaves_it_open(outcome: Outcome, tmp_path: Path) -> None:
    found, _ = verified(lambda _: outcome, tmp_path)
    assert found.verification is Verification.NOT_KNOWN


def test_a_baseline_that_fails_leaves_it_open(tmp_path: Path) -> None:
    def runs_out(settings: TrainingSettings) -> float | Outcome:
        return 100.0 if settings.bucket_cap_mb else Outcome.OUT_OF_MEMORY

    assert verified(runs_out, tmp_path)[0].verification is Verification.NOT_KNOWN


def test_an_update_has_the_figures_of_now(tmp_path: Path) -> None:
    found, _ = verified(faster(1.1), tmp_path)
    best = best_here({"bucket_cap_mb": 50}, conclusion="unconfirmed")
    facts = Facts(
        device=DeviceKind.CPU, nodes=1, ranks_per_node=2, global_batch=16, cores=2, nics=1
    )
    now = datetime(2026, 2, 3, tzinfo=UTC)
    again = restamped(best, found, facts, now)
    assert again.conclusion is Conclusion.IMPROVED
    assert again.evidence.ratio == found.ratio
    assert again.evidence.trials == best.evidence.trials + 10
    assert again.evidence.fingerprint is not None
    assert again.evidence.fingerprint.cores == 2
    assert (again.versions, again.created_at) == ({"torch": "2.13.0"}, now)
    assert same_but_for_digits(again)


def same_but_for_digits(best: BestConfiguration) -> bool:
    return from_yaml(to_yaml(best), "x").settings == best.settings
