"""What the benchmarks of the search share: studies on landscapes, in virtual time."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path

from autotune.cli.simulated import on_landscape
from autotune.executors.landscapes import Landscape, LandscapeSource, layout_of
from autotune.executors.simulated import SimulatedExecutor, VirtualClock
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.machines import simulated_place
from autotune.model import (
    BestConfiguration,
    Candidate,
    Machine,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    Trial,
)
from autotune.request import Request, Spaces, build_space, build_target
from autotune.space.space import Space
from autotune.strategies import build_strategy
from autotune.strategies.neighbourhood import neighbours

_MOST_CANDIDATES = 3000
"""A larger space isn't gone through completely: the best of it is climbed to."""


@dataclass(frozen=True)
class Scene:
    """A landscape with the space that is searched on it."""

    landscape: Landscape
    machine: Machine
    target: Target
    space: Space

    @classmethod
    def of(cls, name: str, space: Spaces | None = None, **changes: object) -> "Scene":
        """The shipped landscape called `name`, with `changes` to its fields."""
        source = LandscapeSource.of(name)
        request = on_landscape(Request(space=space or Spaces()), source)
        place = simulated_place(source)
        target = build_target(request, place.machine)
        return cls(
            landscape=replace(source.landscape(), **changes),  # type: ignore[arg-type]
            machine=place.machine,
            target=target,
            space=build_space(request, place, target),
        )

    def launched_in(self, seconds: float) -> "Scene":
        """The same with another cost of a launch."""
        return replace(self, landscape=replace(self.landscape, launch_s=seconds))

    def with_noise(self, percent: float) -> "Scene":
        """The same with another noise between launches, and as much between windows."""
        noise = replace(self.landscape.noise, launch_percent=percent, window_percent=percent)
        return replace(self, landscape=replace(self.landscape, noise=noise))

    def rate(self, candidate: Candidate) -> float:
        """True samples/s; 0 for one that can't run."""
        layout = layout_of(self.space.settings(candidate), self.space.environment(candidate))
        if self.landscape.speed.failure(layout) is not None:
            return 0.0
        return self.landscape.rate(layout)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All of them, or as many as are looked at."""
        return tuple(islice(self.space.candidates(), _MOST_CANDIDATES))

    @property
    def is_complete(self) -> bool:
        return len(self.candidates) < _MOST_CANDIDATES

    @cached_property
    def best(self) -> Candidate:
        """The fastest; in a large space the top of climbs from its fastest corners."""
        if self.is_complete:
            return max(self.candidates, key=self.rate)
        rng = random.Random(0)
        drawn = [self.space.build(lambda q: rng.choice(q.values)) for _ in range(1000)]
        starts = sorted(drawn, key=self.rate)[-5:]
        return max((self._climb(start) for start in starts), key=self.rate)

    def _climb(self, at: Candidate) -> Candidate:
        while True:
            higher = max(neighbours(self.space, at), key=self.rate)
            if self.rate(higher) <= self.rate(at):
                return at
            at = higher


class Kept:
    """A study's records as they are: what a store makes of them isn't what is simulated here."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._trials: list[Trial] = []

    def trials(self, run_id: str) -> list[Trial]:
        del run_id
        return self._trials

    def add_trial(self, trial: Trial) -> None:
        self._trials.append(trial)

    def save_best(self, best: BestConfiguration) -> None:
        raise AssertionError(f"saved an answer of simulated trials: {best}")

    def update_study(self, run_id: str, **changes: object) -> Study:
        del run_id, changes
        return self._study


def study(
    scene: Scene, seed: int, *, strategy: str = "staged", budget_s: float | None = None
) -> tuple[StudyEnd, list[Trial], float]:
    """Run a study to its end: how it ended, its trials, and the virtual seconds that it took."""
    now = datetime.now(UTC)
    record = Study(
        run_id="benchmark",
        spec=StudySpec(target=scene.target, seed=seed, search=strategy, budget_s=budget_s),
        machine=scene.machine,
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store = Kept(record)
    clock = VirtualClock()
    end = StudyRunner(
        study=record,
        space=scene.space,
        strategy=build_strategy(strategy, scene.space, seed),
        executor=SimulatedExecutor(scene.landscape, scene.machine, clock=clock),
        store=store,
        folder=Path("unused"),
        clock=clock,
    ).run()
    return end, store.trials(record.run_id), clock()


def table(head: list[str], rows: Iterator[list[object]] | list[list[object]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
