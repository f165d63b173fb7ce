"""A study whose executor runs several trials of its search at once."""

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition, Event

import pytest

from autotune.errors import ExecutorError
from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.loop.history import covered_s
from autotune.loop.observer import Observer
from autotune.loop.plan import BASELINE_LAUNCHES
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.model import (
    Conclusion,
    Outcome,
    Phase,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    TrainingSettings,
    Trial,
)
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.storage import MemoryStore
from autotune.strategies import build_strategy
from tests.conformance.records import a_trial
from tests.fakes import MACHINE, FormulaExecutor

TARGET = Target(
    instance=MACHINE.instance, nodes=1, ranks_per_node=2, workload="tiny", global_batch=32
)
PATIENCE_S = 20.0


def two_is_best(settings: TrainingSettings) -> float:
    return 150.0 if settings.accumulation_steps == 2 else 100.0


class Lanes(FormulaExecutor):
    """Launches at once make `beside` times the samples/s that they make alone."""

    def __init__(
        self,
        lanes: int,
        *,
        beside: float = 1.0,
        gives_up_at: int | None = None,
        loses: int | None = None,
    ) -> None:
        """It raises at the `gives_up_at`-th launch; the `loses`-th one of the search is lost."""
        super().__init__(two_is_best)
        self._loses = loses
        self._lanes = lanes
        self._beside = beside
        self._gives_up_at = gives_up_at
        self._changed = Condition()
        self._running: list[Launch] = []
        self._accompanied: list[Launch] = []
        self.together: list[tuple[Launch, ...]] = []
        """For each launch those that ran when it had begun, itself included."""
        self.threads: set[int] = set()

    @property
    def at_once(self) -> int:
        return self._lanes

    def narrow(self) -> None:
        self._lanes = 1

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        with self._changed:
            self._begin(launch)
            round_, _, _ = launch.directory.name.rpartition("-")
            if round_.startswith("beside"):
                self._changed.wait_for(lambda: self._has_begun(round_), PATIENCE_S)
            elif not launch.fresh:
                self._changed.wait_for(self._has_been_full, PATIENCE_S)
            factor = self._beside if launch in self._accompanied else 1.0
            self._speed = lambda settings: factor * two_is_best(settings)
            launch.directory.mkdir(parents=True)
            (launch.directory / "rank-0.log").write_text(str(launch.spec.settings))
            if not launch.fresh and sum(not one[-1].fresh for one in self.together) == self._loses:
                self._loses = None
                self._speed = lambda _: Outcome.PREEMPTED
            end = super().run(launch, on_window, cancel)
            self._running.remove(launch)
        time.sleep(0.002)
        return end

    def _begin(self, launch: Launch) -> None:
        if self._gives_up_at is not None and len(self.together) >= self._gives_up_at:
            raise ExecutorError("as the test says")
        self._running.append(launch)
        self.together.append(tuple(self._running))
        self.threads.add(threading.get_ident())
        if len(self._running) > 1:
            self._accompanied += self._running
        self._changed.notify_all()

    def _has_begun(self, round_: str) -> bool:
        """All lanes run the baseline of this round."""
        names = [running[-1].directory.name for running in self.together]
        return sum(name.startswith(round_) for name in names) == self._lanes

    def _has_been_full(self) -> bool:
        """As many of the search as can run have run at once."""
        most = max(map(len, beside(self.together)), default=1)
        return most >= self._lanes


class Notices(Observer):
    """Keeps what is said, and cancels after so many trials."""

    def __init__(self, cancel: Event, after: int | None) -> None:
        self.said: list[str] = []
        self._cancel = cancel
        self._left = after

    def noticed(self, notice: str) -> None:
        self.said.append(notice)

    def trial_ended(self, trial: Trial) -> None:
        del trial
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._cancel.set()


def run(
    executor: Lanes,
    folder: Path,
    store: MemoryStore | None = None,
    *,
    stop_after: int | None = None,
) -> tuple[StudyEnd, list[Trial], Notices]:
    """Run or resume a study called "r" in `store`."""
    store = store or MemoryStore()
    now = datetime.now(UTC)
    study = store.study("r") or Study(
        run_id="r",
        spec=StudySpec(target=TARGET, max_trials=12, seed=1, parallel_trials=2),
        machine=MACHINE,
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store.add_study(study)
    space = Space(load_knobs(), Facts.of(MACHINE, TARGET))
    cancel = Event()
    notices = Notices(cancel, stop_after)
    end = StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy(study.spec.search, space, study.spec.seed),
        executor=executor,
        store=store,
        folder=folder,
        observer=notices,
        cancel=cancel,
    ).run()
    return end, list(store.trials("r")), notices


def beside(launches: list[tuple[Launch, ...]]) -> list[tuple[Launch, ...]]:
    """Trials that ran at once, those that try whether they may left out."""
    return [one for one in launches if len(one) > 1 and "beside" not in one[-1].directory.name]


def test_trials_of_the_search_run_at_once_and_all_others_alone(tmp_path: Path) -> None:
    executor = Lanes(3)
    end, trials, notices = run(executor, tmp_path)
    assert end.decision.conclusion is Conclusion.IMPROVED
    assert [trial.number for trial in trials] == list(range(len(trials)))
    searched = [trial.candidate for trial in trials if trial.phase is Phase.SEARCH]
    assert len(searched) == len(set(searched)) == 12
    at_once = beside(executor.together)
    assert max(map(len, at_once)) == 3
    assert not any(launch.fresh for running in at_once for launch in running)
    assert notices.said == ["measuring the baseline on 3 groups of nodes at once"]
    assert threading.get_ident() not in executor.threads


def test_a_trials_logs_lie_under_its_number(tmp_path: Path) -> None:
    _, trials, _ = run(Lanes(3), tmp_path)
    for trial in trials:
        log = tmp_path / f"trial-{trial.number:04d}" / "rank-0.log"
        assert log.read_text() == str(trial.settings)


def test_trials_that_disturb_each_other_run_alone_and_both_figures_are_said(
    tmp_path: Path,
) -> None:
    executor = Lanes(2, beside=0.7)
    end, _, notices = run(executor, tmp_path)
    assert not beside(executor.together)
    assert end.decision.conclusion is Conclusion.IMPROVED
    (said,) = notices.said[1:]
    assert said.startswith("trials run one at a time from now on: they disturb each other")
    alone, both = (float(word) for word in said.split() if word.replace(".", "").isdecimal())
    assert (alone, both) == pytest.approx((100, 70), rel=0.03)


@pytest.mark.parametrize("after", [2, BASELINE_LAUNCHES + 3, BASELINE_LAUNCHES + 9])
def test_an_interrupted_study_goes_on_with_every_result(after: int, tmp_path: Path) -> None:
    store = MemoryStore()
    end, before, _ = run(Lanes(2), tmp_path / "1", store, stop_after=after)
    assert end.interrupted
    end, trials, _ = run(Lanes(2), tmp_path / "2", store)
    assert trials[: len(before)] == before
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert end.decision.conclusion is Conclusion.IMPROVED
    worked = [t.candidate for t in trials if t.phase is Phase.SEARCH and t.outcome.has_worked]
    assert len(worked) == len(set(worked)) == 12
    # What was cancelled says nothing of its candidate, which is launched again.
    cancelled = {t.candidate for t in trials if t.outcome is Outcome.CANCELLED}
    later = {t.candidate for t in trials if t.outcome.has_worked}
    assert cancelled <= later


@pytest.mark.parametrize("loses", [3, 6])
def test_a_trial_that_was_lost_is_launched_once_more(loses: int, tmp_path: Path) -> None:
    end, trials, _ = run(Lanes(3, loses=loses), tmp_path)
    assert end.decision.conclusion is Conclusion.IMPROVED
    lost = [trial.candidate for trial in trials if trial.outcome is Outcome.PREEMPTED]
    assert len(lost) == 1
    searched = [trial.candidate for trial in trials if trial.phase is Phase.SEARCH]
    assert [searched.count(candidate) for candidate in lost] == [2]
    assert len(set(searched)) == 12


def test_what_is_remembered_is_the_same_as_what_was_decided(tmp_path: Path) -> None:
    store = MemoryStore()
    end, _, _ = run(Lanes(3), tmp_path, store)
    study = store.study("r")
    assert study is not None
    space = Space(load_knobs(), Facts.of(MACHINE, TARGET))
    recalled = StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy(study.spec.search, space, study.spec.seed),
        executor=Lanes(1),
        store=store,
        folder=tmp_path,
    ).recall()
    assert recalled.decision == end.decision


def test_an_executor_that_fails_ends_the_study(tmp_path: Path) -> None:
    with pytest.raises(ExecutorError, match="as the test says"):
        run(Lanes(2, gives_up_at=12), tmp_path)


def test_time_that_trials_share_counts_once() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def trial(at_s: float, seconds: float) -> Trial:
        return a_trial(started_at=start + timedelta(seconds=at_s), seconds=seconds)

    assert covered_s([]) == 0
    assert covered_s([trial(0, 2), trial(2, 3), trial(10, 1)]) == 6
    assert covered_s([trial(1, 2), trial(0, 10), trial(9, 3)]) == 12
