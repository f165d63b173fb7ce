"""The loop leaves out what can't fit, tries near ones last, and never loses everything to it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from autotune.cli.report import print_answer
from autotune.cli.saving import Saved
from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.loop.fit import MAX_PUT_OFF, FittingProposals, MemoryKnowledge, memory_job
from autotune.loop.ledger import Ledger
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.model import (
    PRESETS,
    Candidate,
    Conclusion,
    KnobValue,
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
from autotune.space.memory import Capacity, Fit, Judgement, predict
from autotune.space.space import Space
from autotune.storage import MemoryStore, Store
from autotune.strategies import build_strategy
from autotune.strategies.base import SearchStrategy
from tests.fakes import MACHINE, FormulaExecutor

TARGET = Target(
    instance=MACHINE.instance, nodes=1, ranks_per_node=2, workload="mini", global_batch=1024
)
KNOBS = load_knobs()
SPACE = Space(KNOBS, Facts.of(MACHINE, TARGET))
EMPTY = Ledger(SPACE)
JOB = memory_job(SPACE, PRESETS["mini"])
MIB = 2**20


def needed(settings: TrainingSettings) -> int:
    return predict(JOB, settings, {}).total_bytes


def faster_with_less_accumulation(settings: TrainingSettings) -> float:
    return 100.0 + settings.micro_batch / 10


class LimitedExecutor(FormulaExecutor):
    """Trials run out of memory when `truth` of their settings is above `room_bytes`."""

    def __init__(self, room_bytes: float, truth: Callable[[TrainingSettings], float]) -> None:
        super().__init__(faster_with_less_accumulation, noise=0.0)
        self.room_bytes, self.truth = room_bytes, truth

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        peak = round(self.truth(launch.spec.settings))
        end = super().run(launch, on_window, cancel)
        if peak > self.room_bytes:
            return LaunchEnd(outcome=Outcome.OUT_OF_MEMORY, reason="as the test says")
        if end.measurement is None:
            return end
        return replace(end, measurement=replace(end.measurement, peak_memory_bytes=(peak, peak)))


class CancelAt(Observer):
    def __init__(self, number: int, cancel: Event) -> None:
        self.number, self.cancel = number, cancel

    def trial_started(self, start: TrialStart) -> None:
        if start.number == self.number:
            self.cancel.set()


def run(
    room_bytes: float,
    *,
    truth: Callable[[TrainingSettings], float] = needed,
    real_room_bytes: float | None = None,
    store: Store | None = None,
    cancel_at: int = -1,
    max_trials: int | None = 15,
    only: tuple[str, ...] = (),
) -> tuple[StudyEnd, list[Trial]]:
    store = store or MemoryStore()
    now = datetime.now(UTC)
    spec = StudySpec(target=TARGET, max_trials=max_trials, seed=3, only=only)
    study = store.study("r") or Study(
        run_id="r", spec=spec, machine=MACHINE, status=StudyStatus.RUNNING, created_at=now,
        updated_at=now,
    )  # fmt: skip
    if store.study("r") is None:
        store.add_study(study)
    space = Space(KNOBS, SPACE.facts, only=only)
    executor = LimitedExecutor(real_room_bytes or room_bytes, truth)
    cancel = Event()
    end = StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy("tpe", space, 3),
        executor=executor,
        store=store,
        folder=Path("unused"),
        observer=CancelAt(cancel_at, cancel),
        cancel=cancel,
        clock=executor.clock,
        capacity=Capacity(per_rank_bytes=round(room_bytes), source="a test"),
    ).run()
    return end, list(store.trials("r"))


def searched(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.phase is Phase.SEARCH]


def content(trials: list[Trial]) -> list[tuple[Phase, str]]:
    finals = [trial for trial in trials if trial.outcome.is_final]
    return [(trial.phase, trial.candidate.key) for trial in finals]


SMALL = needed(SPACE.settings(SPACE.baseline()))
"""The baseline's need; accumulation and checkpointing need much less."""


def test_what_cannot_fit_is_never_launched_counted_and_told() -> None:
    room = 0.6 * SMALL
    end, trials = run(room)
    assert all(needed(trial.settings) <= 1.2 * room for trial in searched(trials))
    assert len(searched(trials)) == 15
    assert end.left_out.cannot
    assert set(end.left_out.cannot) <= set(end.skipped)
    assert not {trial.candidate for trial in trials} & set(end.skipped)
    assert f"{len(end.left_out.cannot)} candidates not launched" in end.left_out.describe()
    assert "can't fit into" in end.left_out.describe()


def test_the_printed_answer_counts_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    end, trials = run(0.6 * SMALL, store=store)
    study = store.study("r")
    assert study is not None
    print_answer(study, end, trials, Saved(), "table")
    printed = " ".join(capsys.readouterr().out.split())
    number = len(end.left_out.cannot)
    assert number > 1
    assert f"memory {number} candidates not launched, for want of memory" in printed


def test_the_baseline_is_tried_once_even_if_it_cannot_fit() -> None:
    end, trials = run(0.6 * SMALL)
    baselines = [trial for trial in trials if trial.phase is Phase.BASELINE]
    assert [trial.outcome for trial in baselines] == [Outcome.OUT_OF_MEMORY]
    assert end.decision.conclusion is Conclusion.IMPROVED


def test_with_room_for_all_nothing_is_left_out() -> None:
    end, trials = run(100 * SMALL)
    assert end.left_out.describe() == ""
    assert not end.left_out.cannot
    assert not end.left_out.near
    assert len(searched(trials)) == 15


def test_near_ones_come_after_those_that_fit() -> None:
    # Without checkpointing FSDP is predicted to need as much as there is, and 1 % more.
    end, trials = run(
        SMALL,
        real_room_bytes=2 * SMALL,
        max_trials=None,
        only=("strategy", "activation_checkpointing"),
    )
    near = [needed(trial.settings) > SMALL for trial in searched(trials)]
    assert near == [False] * 6 + [True] * 2
    assert not end.left_out.near


def test_near_ones_that_are_not_reached_are_told() -> None:
    end, trials = run(SMALL, max_trials=6, only=("strategy", "activation_checkpointing"))
    assert len(searched(trials)) == 6
    assert end.left_out.near
    assert "left for the end of the search and not reached" in end.left_out.describe()


def test_a_space_in_which_all_are_near_is_searched() -> None:
    assert MAX_PUT_OFF < 100
    end, trials = run(SMALL * 0.98, real_room_bytes=SMALL * 2, only=("bucket_cap_mb",))
    assert searched(trials)
    assert not end.left_out.cannot


def test_a_wrong_prediction_removes_nothing_for_good() -> None:
    # Nothing is predicted to fit by far, and all do.
    end, trials = run(0.1 * SMALL, real_room_bytes=10 * SMALL, max_trials=40)
    assert len(searched(trials)) == 40
    assert {trial.outcome for trial in trials} <= {Outcome.COMPLETED, Outcome.PRUNED}
    assert not end.left_out.cannot or all(
        needed(SPACE.settings(candidate)) > SMALL for candidate in end.left_out.cannot
    )


def test_what_runs_out_of_memory_is_not_repeated_nor_what_needs_as_much() -> None:
    # Room is predicted for all, and there isn't.
    end, trials = run(100 * SMALL, real_room_bytes=0.5 * SMALL, max_trials=30)
    failed = [trial for trial in trials if trial.outcome is Outcome.OUT_OF_MEMORY]
    assert failed
    assert len({trial.candidate for trial in failed}) == len(failed)
    for earlier in failed:
        for later in trials[earlier.number + 1 :]:
            needs = predict(JOB, later.settings, {}), predict(JOB, earlier.settings, {})
            theirs = needs[1].components()
            assert any(size < theirs[name] for name, size in needs[0].components().items())
    assert any("ran out of memory" in reason for reason in end.skipped.values())
    assert end.decision.conclusion is Conclusion.IMPROVED


@pytest.mark.parametrize("room", [0.5, 0.8])
@pytest.mark.parametrize("cancel_at", [1, 4, 11, 16])
def test_a_resumed_study_leaves_out_the_same(room: float, cancel_at: int) -> None:
    whole_end, whole = run(room * SMALL)
    store = MemoryStore()
    run(room * SMALL, store=store, cancel_at=cancel_at)
    end, trials = run(room * SMALL, store=store)
    assert content(trials) == content(whole)
    assert end.skipped == whole_end.skipped
    assert end.left_out.describe() == whole_end.left_out.describe()


def test_measured_peaks_tighten_the_prediction() -> None:
    # All needs are a quarter above what is predicted. Room is for what was predicted to need 80 %.
    def truth(settings: TrainingSettings) -> float:
        return 1.25 * needed(settings)

    _, trials = run(SMALL, truth=truth, max_trials=40)
    failed = [t.outcome is Outcome.OUT_OF_MEMORY for t in searched(trials)]
    assert sum(failed[20:]) <= sum(failed[:20])
    assert sum(failed) <= 6


class Numbers(SearchStrategy):
    """Proposes x=0, x=1, ..."""

    def __init__(self, count: int) -> None:
        self.left = [Candidate({"x": number}) for number in range(count)]
        self.told: list[tuple[KnobValue, float | None]] = []

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        return next((one for one in self.left if one not in beside), None)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        self.told.append((candidate["x"], value))
        self.left = [one for one in self.left if one != candidate]


class Verdicts(MemoryKnowledge):
    """Says what it is told to; x needs as much as it says."""

    def __init__(self, fits: Callable[[int], Fit]) -> None:
        self.fits = fits

    def learn(self, trials: Sequence[Trial]) -> None:
        del trials

    def judge(self, candidate: Candidate) -> Judgement:
        number = int(candidate["x"])
        return Judgement(fit=self.fits(number), needed_bytes=number, reason=self.fits(number).value)


def proposals(count: int, fits: Callable[[int], Fit]) -> tuple[FittingProposals, Numbers]:
    strategy = Numbers(count)
    return FittingProposals(strategy=strategy, judges=[], memory=Verdicts(fits)), strategy


def drain(source: FittingProposals, strategy: Numbers) -> list[KnobValue]:
    found = []
    while (candidate := source.next(EMPTY)) is not None:
        found.append(candidate["x"])
        strategy.tell(candidate, 1.0)
    return found


def test_unfit_ones_are_told_infeasible_and_near_ones_follow_by_need() -> None:
    kinds = [Fit.NEAR, Fit.FITS, Fit.CANNOT, Fit.NEAR, Fit.FITS]
    source, strategy = proposals(5, lambda number: kinds[number])
    assert drain(source, strategy) == [1, 4, 0, 3]
    assert (2, None) in strategy.told
    assert (0, None) in strategy.told
    assert [candidate["x"] for candidate in source.skipped] == [2]
    left = source.left_out(EMPTY)
    assert [candidate["x"] for candidate in left.cannot] == [2]
    assert not left.near


def test_no_more_than_some_are_put_off_between_two_launches() -> None:
    source, strategy = proposals(10 * MAX_PUT_OFF, lambda _: Fit.NEAR)
    first = source.next(EMPTY)
    assert first is not None
    assert first["x"] == MAX_PUT_OFF
    assert len(strategy.told) == MAX_PUT_OFF
    strategy.tell(first, 1.0)
    second = source.next(EMPTY)
    assert second is not None
    assert second["x"] == 2 * MAX_PUT_OFF + 1


def test_a_verdict_that_changes_brings_candidates_back() -> None:
    verdicts = {0: Fit.CANNOT, 1: Fit.NEAR, 2: Fit.FITS, 3: Fit.FITS}
    source, strategy = proposals(4, verdicts.__getitem__)
    two = source.next(EMPTY)
    assert two == Candidate({"x": 2})
    strategy.tell(two, 1.0)
    verdicts |= {0: Fit.FITS, 1: Fit.CANNOT}
    assert drain(source, strategy) == [0, 3]
    assert source.skipped == {Candidate({"x": 1}): "cannot"}
