"""Whole studies that are simulated: found, resumed, counted in virtual time, and never saved."""

import dataclasses
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from autotune.budget import Budget
from autotune.cli.simulated import check_recorded, on_landscape
from autotune.compose import build_spec, new_study, runner
from autotune.errors import FieldError, UserError
from autotune.executors.landscapes import Landscape, LandscapeSource, Noise
from autotune.executors.simulated import SimulatedExecutor
from autotune.exporters.document import from_yaml, to_yaml
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.machines import simulated_place
from autotune.model import (
    BestConfiguration,
    Candidate,
    Conclusion,
    DeviceKind,
    Evidence,
    Outcome,
    Phase,
    SimulatedMeasurement,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    TrainingSettings,
    Trial,
)
from autotune.report.reproduce import command
from autotune.request import Request, build_space, build_target
from autotune.scoring import distributions
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.instances import InstanceType, Interconnect
from autotune.space.space import Space
from autotune.storage import MemoryStore, Store
from autotune.strategies import build_strategy
from autotune.strategies.base import Comparison, SearchStrategy
from tests.fakes import MACHINE

BETTER = """
base: one-better
launch_noise_percent: 1
step_noise_percent: 1
gain_percent: 20
better: {strategy: fsdp_full}
"""


SKIPPING = """
base: additive
memory_percent: 100
failures:
- {outcome: crashed, percent: 15, each: candidate}
- {outcome: out_of_memory, percent: 25, each: candidate}
"""


class Recorder(SearchStrategy):
    """Notes what a strategy is told."""

    def __init__(self, strategy: SearchStrategy) -> None:
        self._strategy = strategy
        self.patience, self.pivotal = strategy.patience, strategy.pivotal
        self.told: list[tuple[Candidate, float | None]] = []

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        return self._strategy.ask(beside)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        self.told.append((candidate, value))
        self._strategy.tell(candidate, value)

    def compare(self, one: Candidate, other: Candidate) -> Comparison | None:
        return self._strategy.compare(one, other)


class Stop(Observer):
    """Sets an event once so many trials have ended."""

    def __init__(self, cancel: Event, after: int) -> None:
        self.cancel = cancel
        self.left = after

    def trial_ended(self, trial: Trial) -> None:
        self.left -= 1
        if not self.left:
            self.cancel.set()


def source_of(folder: Path, text: str) -> LandscapeSource:
    path = folder / "mine.yaml"
    path.write_text(text)
    return LandscapeSource.of(str(path))


def started(source: LandscapeSource, store: Store, **given: object) -> Study:
    """A new study as `autotune run` makes one."""
    request = Request(**{"max_trials": 6, "seed": 1, **given})  # type: ignore[arg-type]
    request = on_landscape(request, source)
    place = simulated_place(source)
    target = build_target(request, place.machine)
    space = build_space(request, place, target)
    check_recorded(space, source)
    return new_study(build_spec(request, target, space, place), place.machine, store)


def run(study: Study, store: Store, *, stop_after: int = 0) -> StudyEnd:
    """Run what is left of it, as `autotune resume` does."""
    cancel = Event()
    landscape = LandscapeSource(name=study.spec.landscape, text=study.spec.landscape_text)
    place = simulated_place(landscape)
    return runner(study, place, store, Stop(cancel, stop_after), cancel, {"NCCL_ALGO": "x"}).run()


def trials(store: Store, study: Study) -> list[tuple[object, ...]]:
    """What has to be the same again: all but names and times of day."""
    return [
        (t.number, t.phase, t.candidate, t.outcome, t.reason, t.measurement, round(t.seconds, 6))
        for t in store.trials(study.run_id)
    ]


def test_a_true_gain_is_found_and_not_saved(tmp_path: Path) -> None:
    store = MemoryStore()
    study = started(source_of(tmp_path, BETTER), store, only=("strategy",), max_trials=2)
    end = run(study, store)
    assert end.decision.conclusion is Conclusion.IMPROVED
    assert end.best is None
    assert end.evidence is not None
    assert end.evidence.ratio is not None
    assert end.evidence.ratio.low < 1.2 < end.evidence.ratio.high
    assert store.bests() == []
    assert study.spec.target.instance == "simulated:mine"
    measured = [trial.measurement for trial in store.trials(study.run_id)]
    assert all(isinstance(one, SimulatedMeasurement) for one in measured)


def test_scipy_is_imported_before_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its half a second would be between two trials, with the machine idle."""
    seen: list[str] = []
    monkeypatch.setattr(distributions, "load", lambda: seen.append("import"))
    monkeypatch.setattr(Stop, "trial_started", lambda *_: seen.append("trial"))
    store = MemoryStore()
    run(started(LandscapeSource.of("all-equal"), store, max_trials=1), store, stop_after=2)
    assert seen == ["import", "trial", "trial"]


def test_the_same_seed_gives_the_same_study_and_another_one_another() -> None:
    store, source = MemoryStore(), LandscapeSource.of("faulty")
    first, again, other = (started(source, store, seed=seed) for seed in (1, 1, 2))
    for study in (first, again, other):
        run(study, store)
    assert trials(store, first) == trials(store, again)
    assert trials(store, first) != trials(store, other)


@pytest.mark.parametrize("text", ["base: drifting", "base: faulty"])
def test_a_resumed_study_goes_on_as_it_would_have(tmp_path: Path, text: str) -> None:
    store, source = MemoryStore(), source_of(tmp_path, text)
    whole, broken = started(source, store), started(source, store)
    run(whole, store)
    (tmp_path / "mine.yaml").unlink()
    assert run(broken, store, stop_after=5).interrupted
    resumed = store.study(broken.run_id)
    assert resumed is not None
    run(resumed, store)
    assert trials(store, whole) == trials(store, broken)


class Starts(Observer):
    """What the search had been told when each trial started; the run ends with trial `last`."""

    def __init__(self, last: int | None = None) -> None:
        self.strategy: Recorder | None = None
        self.cancel = Event()
        self.seen: dict[int, list[tuple[Candidate, float | None]]] = {}
        self._last = last

    def trial_started(self, start: TrialStart) -> None:
        assert self.strategy
        self.seen[start.number] = list(self.strategy.told)
        if start.number == self._last:
            self.cancel.set()


def test_a_search_that_was_resumed_knows_what_it_would_have_known(tmp_path: Path) -> None:
    """Skipped proposals are told and not stored: it has to ask again just where it asked."""
    source = source_of(tmp_path, SKIPPING)
    whole = started(source, MemoryStore(), seed=3, max_trials=24)

    def starts(store: MemoryStore, last: int | None = None) -> Starts:
        seen = Starts(last)
        store.add_study(whole)
        place = simulated_place(source)
        resumed = runner(whole, place, store, seen, seen.cancel, {"NCCL_ALGO": "x"})
        resumed.strategy = seen.strategy = Recorder(resumed.strategy)
        resumed.run()
        return seen

    store = MemoryStore()
    expected = starts(store).seen
    recorded = list(store.trials(whole.run_id))
    assert len(expected[30]) > 30  # some were skipped
    for number in range(15, len(recorded), 5):
        stopped = MemoryStore()
        stopped.add_study(whole)
        for trial in recorded[:number]:
            stopped.add_trial(trial)
        assert starts(stopped, number).seen == {number: expected[number]}, number


def test_a_budget_counts_virtual_time() -> None:
    store = MemoryStore()
    began = time.monotonic()
    study = started(
        LandscapeSource.of("rugged"), store, budget=Budget(seconds=600.0), max_trials=None
    )
    run(study, store)
    spent_s = sum(trial.seconds for trial in store.trials(study.run_id))
    assert 400 < spent_s <= 620
    assert time.monotonic() - began < spent_s
    assert any(trial.phase is Phase.CONFIRM for trial in store.trials(study.run_id))


def test_failures_of_every_kind_leave_a_study_with_an_answer() -> None:
    store = MemoryStore()
    study = started(LandscapeSource.of("faulty"), store, max_trials=40)
    end = run(study, store)
    outcomes = {trial.outcome for trial in store.trials(study.run_id)}
    assert len(outcomes - {Outcome.COMPLETED}) >= 3
    assert end.decision.conclusion is not Conclusion.NO_CANDIDATE


def test_all_nodes_of_the_landscape_are_in_the_target() -> None:
    study = started(LandscapeSource.of("additive"), MemoryStore())
    assert (study.spec.target.nodes, study.spec.target.ranks_per_node) == (2, 8)
    assert study.spec.environment == {}


def target(instance: str) -> Target:
    return Target(instance=instance, nodes=1, ranks_per_node=2, workload="tiny", global_batch=32)


def best(instance: str) -> BestConfiguration:
    return BestConfiguration(
        target=target(instance),
        conclusion=Conclusion.KEEP_DEFAULTS,
        settings=TrainingSettings(micro_batch=16),
        environment={},
        evidence=Evidence(
            baseline=None, winner=None, ratio=None, device=DeviceKind.CPU, trials=1, reason="x"
        ),
        versions={},
        run_id="r",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_no_best_configuration_is_of_a_simulated_instance() -> None:
    real = best("local-x")
    with pytest.raises(FieldError, match=r"target.instance: 'simulated:x'"):
        best("simulated:x")
    with pytest.raises(FieldError, match=r"target.instance"):
        dataclasses.replace(real, target=target("simulated:x"))
    with pytest.raises(UserError, match="simulated:x"):
        from_yaml(to_yaml(real).replace("local-x", "simulated:x"), "best.yaml")


def test_simulated_trials_are_never_the_best_of_a_real_instance() -> None:
    # Somebody's code hands a study of a real machine to the simulated executor.
    store, now = MemoryStore(), datetime.now(UTC)
    study = Study(
        run_id="r",
        spec=StudySpec(target=target(MACHINE.instance), max_trials=1),
        machine=MACHINE,
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store.add_study(study)
    space = Space(load_knobs(), Facts.of(MACHINE, study.spec.target))
    machine = dataclasses.replace(MACHINE, instance="simulated:x")
    executor = SimulatedExecutor(Landscape(name="x", noise=Noise(launch_percent=1)), machine)
    wrong = StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy("tpe", space, 0),
        executor=executor,
        store=store,
        folder=Path("unused"),
        clock=executor.clock,
    )
    with pytest.raises(FieldError, match=f"target.instance: '{MACHINE.instance}'"):
        wrong.run()
    assert store.bests() == []


def test_the_names_of_simulated_and_real_machines_never_meet() -> None:
    with pytest.raises(ValueError, match="local-x"):
        SimulatedExecutor(Landscape(name="x"), dataclasses.replace(MACHINE, instance="local-x"))
    with pytest.raises(FieldError, match="name: 'simulated:x'"):
        InstanceType(
            name="simulated:x", gpu="A100", gpus=1, gpu_memory_mib=1, vcpus=1, memory_gib=1,
            interconnect=Interconnect.NONE, network_gbps=1, nics=1, efa=False,
        )  # fmt: skip
    with pytest.raises(FieldError, match="landscape"):
        StudySpec(target=target("local-x"), landscape="rugged")


def test_a_recorded_landscape_is_played_back_for_its_own_job_only() -> None:
    source, store = LandscapeSource.of("two-ranks"), MemoryStore()
    study = started(source, store, max_trials=3)
    assert "bucket_cap_mb" in study.spec.only
    run(study, store)
    assert {trial.outcome for trial in store.trials(study.run_id)} >= {Outcome.COMPLETED}
    with pytest.raises(FieldError, match=r"--workload: 'mini'.*recorded"):
        started(source, store, workload="mini")
    with pytest.raises(FieldError, match=r"--global-batch: 64.*recorded"):
        started(source, store, global_batch=64)
    with pytest.raises(UserError, match=r"no record of the candidate .*static_graph=True"):
        started(source, store, only=("static_graph",))


def test_what_is_held_isnt_searched_on_a_recorded_landscape_either() -> None:
    """It says by itself what is searched: nobody has named the same knob twice."""
    source = LandscapeSource.of("two-ranks")
    store = MemoryStore()
    study = started(source, store, pinned={"accumulation_steps": "4"})
    assert study.spec.pinned == {"accumulation_steps": 4}
    assert "accumulation_steps" not in study.spec.only
    assert "strategy" in study.spec.only
    with pytest.raises(UserError, match="--only: 'accumulation_steps' can't be searched"):
        started(source, store, pinned={"accumulation_steps": "4"}, only=("accumulation_steps",))


def test_a_study_of_before_with_a_knob_in_both_goes_on() -> None:
    source = LandscapeSource.of("two-ranks")
    store = MemoryStore()
    study = started(source, store, max_trials=1, pinned={"accumulation_steps": "4"})
    both = dataclasses.replace(study.spec, only=(*study.spec.only, "accumulation_steps"))
    before = dataclasses.replace(study, run_id="before", spec=both)
    store.add_study(before)
    assert run(before, store).decision
    asked_again = command(before)
    assert "accumulation_steps" not in asked_again.partition("--only ")[2].partition(" ")[0]
    assert "--set accumulation_steps=4" in asked_again
