"""An invocation that has less time than its study: it decides what it can, and leaves the rest."""

from dataclasses import replace
from threading import Event

import pytest

from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.model import Conclusion, Outcome, StudyStatus
from autotune.storage import MemoryStore
from tests.fakes import FormulaExecutor
from tests.unit.test_loop import fsdp_wins, run


def test_what_was_confirmed_in_time_is_the_answer() -> None:
    store = MemoryStore()
    end, trials, _ = run(fsdp_wins, store, max_trials=None, budget_s=2000.0, time_limit_s=60.0)
    assert sum(trial.seconds for trial in trials) <= 60.0
    assert (end.decision.conclusion, end.out_of_time) == (Conclusion.IMPROVED, False)
    assert end.interrupted is False
    study = store.study("r")
    assert study is not None
    assert study.status is StudyStatus.FINISHED


@pytest.mark.parametrize("limit_s", [0.5, 4.0, 8.0, 12.0])
def test_what_isnt_decided_in_time_is_left_for_a_resume(limit_s: float) -> None:
    store = MemoryStore()
    cut, trials, _ = run(fsdp_wins, store, time_limit_s=limit_s)
    assert sum(trial.seconds for trial in trials) <= limit_s + 1.0
    assert (cut.out_of_time, cut.interrupted) == (True, True)
    assert cut.decision.conclusion in (Conclusion.UNCONFIRMED, Conclusion.NO_CANDIDATE)
    study = store.study("r")
    assert study is not None
    assert study.status is StudyStatus.INTERRUPTED
    assert store.best(study.spec.target) == cut.best
    again, more, _ = run(fsdp_wins, store)
    assert (again.decision.conclusion, again.out_of_time) == (Conclusion.IMPROVED, False)
    assert more[: len(trials)] == trials


def test_the_limit_counts_what_the_budget_does_not() -> None:
    """Agents that are waited for take no time of a study, but its job is killed all the same."""
    end, trials, executor = run(fsdp_wins, time_limit_s=30.0, prepared_s=lambda n: 9.0 * (n < 3))
    assert executor.now <= 30.0 + 1.0
    assert sum(trial.seconds for trial in trials) <= executor.now - 27.0
    assert end.out_of_time


def test_a_limit_beyond_the_budget_changes_nothing() -> None:
    plain, trials, _ = run(fsdp_wins, budget_s=12.0, max_trials=None)
    limited, same, _ = run(fsdp_wins, budget_s=12.0, max_trials=None, time_limit_s=12.0)
    assert plain.decision == limited.decision
    assert limited.out_of_time is False
    assert [trial.candidate for trial in trials] == [trial.candidate for trial in same]


def test_a_resumed_invocation_has_its_limit_for_itself() -> None:
    store = MemoryStore()
    _, first, _ = run(fsdp_wins, store, time_limit_s=8.0)
    end, both, _ = run(fsdp_wins, store, time_limit_s=15.0)
    assert len(first) < len(both) <= len(first) + 15
    assert end.decision.conclusion is Conclusion.IMPROVED


def test_a_study_that_ends_by_itself_in_time_is_finished() -> None:
    end, _, _ = run(lambda _: 100.0, noise=0.0, time_limit_s=1e6)
    assert (end.decision.conclusion, end.out_of_time) == (Conclusion.KEEP_DEFAULTS, False)


@pytest.mark.parametrize("lost_from", [0, 4])
def test_a_machine_is_waited_for_until_the_limit_at_most(
    lost_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost ones may come back after minutes, and a job with a time limit is killed before."""
    waited: list[float] = []

    def waits(self: FormulaExecutor, launch: Launch, on_window: OnWindow, stop: Event) -> LaunchEnd:
        if len(self.launches) < lost_from:
            return launches(self, launch, on_window, stop)
        assert launch.wait_limit_s is not None
        waited.append(launch.wait_limit_s)
        self.now += waited[-1]
        end = LaunchEnd(outcome=Outcome.PLACEMENT, reason="nothing is free")
        return replace(end, prepared_s=waited[-1])

    launches = FormulaExecutor.run
    monkeypatch.setattr(FormulaExecutor, "run", waits)
    end, trials, executor = run(fsdp_wins, time_limit_s=30.0)
    assert waited == [pytest.approx(30.0 - lost_from)]
    assert executor.now == pytest.approx(30.0)
    assert trials[-1].seconds == pytest.approx(0.0), "a budget doesn't count what is waited for"
    assert end.out_of_time


def test_without_a_limit_the_executor_decides_how_long_it_waits() -> None:
    _, _, executor = run(fsdp_wins, budget_s=20.0)
    assert {launch.wait_limit_s for launch in executor.launches} == {None}
