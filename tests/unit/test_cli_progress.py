"""What a person sees while a study runs."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from autotune.cli.progress import Progress
from autotune.loop.observer import TrialStart
from autotune.loop.plan import Step
from autotune.model import Candidate, KnobValue, Outcome, Phase, Trial, Window
from autotune.scoring.score import score
from tests.conformance.records import a_measurement, a_trial

BASELINE = Candidate({"strategy": "ddp", "bucket_cap_mb": 25})


def trial(*seconds: float) -> Trial:
    """A trial of windows with 100 samples each."""
    windows = tuple(Window(index=i, steps=1, samples=100, seconds=s) for i, s in enumerate(seconds))
    return a_trial(measurement=a_measurement(windows=windows))


def told(
    ended: Trial,
    *,
    before: list[Trial] | None = None,
    pinned: dict[str, KnobValue] | None = None,
    candidate: Candidate = BASELINE,
) -> str:
    """The line about a trial that has ended."""
    out = io.StringIO()
    progress = Progress(Console(file=out, soft_wrap=True, highlight=False), pinned=pinned)
    progress.resumed(before or [])
    step = Step(phase=Phase.SEARCH, candidate=candidate)
    progress.trial_started(TrialStart(number=3, step=step, baseline=BASELINE, remaining_s=None))
    progress.trial_ended(replace(ended, number=3, candidate=candidate))
    return out.getvalue()


def figure(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_a_trials_speed_is_the_one_of_its_score_and_of_the_tables() -> None:
    ended = trial(0.1, 0.1, 0.1, 0.1, 5.0)
    assert ended.measurement is not None
    expected = score(ended.measurement).samples_per_second
    text = told(ended)
    assert figure(r"([\d,.]+) samples/s", text) == pytest.approx(expected, rel=1e-3)
    assert figure(r"best reading ([\d,.]+)", text) == pytest.approx(expected, rel=1e-3)


def test_a_resumed_study_goes_on_from_its_best() -> None:
    failed = a_trial(outcome=Outcome.PRUNED, measurement=trial(0.001).measurement)
    text = told(trial(0.2), before=[trial(0.2), trial(0.1), failed])
    assert figure(r"best reading ([\d,.]+)", text) == 1000.0
    assert text.startswith("3 trials of before kept\n")


def test_the_baseline_is_called_what_it_is() -> None:
    other = Candidate({"strategy": "ddp", "bucket_cap_mb": 50})
    assert "search    defaults  500.0" in told(trial(0.2))
    held = told(trial(0.2), pinned={"strategy": "ddp", "static_graph": True})
    assert "search    defaults with strategy=ddp static_graph=true  500.0" in held
    changed = told(trial(0.2), pinned={"strategy": "ddp"}, candidate=other)
    assert "search    bucket_cap_mb=50  500.0" in changed
