"""What a study costs, beside the stack that a competent user would script today.

    python benchmarks/search_cost.py --seeds 20

On each landscape and seed: our study, to the end with its confirmation; and Optuna's TPE, random
search or plain GP with one reading of a fixed trial (3 warm-up and 20 measured steps) for each
candidate, launched by torchrun, until its best reading is truly within 2 % of the exhaustive best,
which nobody would know there. Launch costs: what was measured for an empty trial, ours forked and
theirs by torchrun (trial_overhead.py).
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from threading import Event

from simulated_studies import Scene, study, table

from autotune.executors.base import Launch
from autotune.executors.simulated import SimulatedExecutor, VirtualClock
from autotune.loop.ledger import Ledger
from autotune.model import MeasurementPlan, Trial, TrialSpec
from autotune.model.protocol import Verdict
from autotune.scoring.score import score
from autotune.strategies import build_strategy

WITHIN = 0.98
FIXED = MeasurementPlan(windows=1, window_s=1e6, max_steps_per_window=20)
FORKED_S, TORCHRUN_S = 0.1, 3.0
"""Seconds from launch to the first step on CPU that are neither imports of ours nor building."""
MOST_TRIALS = 300
SCENES = ("two-ranks", "two-hosts", "additive", "interacting", "rugged")


@dataclass(frozen=True)
class Cost:
    """Of one search on one landscape."""

    seconds: float
    trials: int
    found: bool
    """Its answer is truly within 2 % of the best."""
    share: float
    """The answer's true speed, of the best's."""
    led_s: float
    """Seconds until its best reading was such a candidate's: what the others are measured by."""


def ours(scene: Scene, seed: int) -> Cost:
    """Our study, to its end."""
    end, trials, seconds = study(scene, seed)
    goal = WITHIN * scene.rate(scene.best)
    share = scene.rate(end.decision.candidate) / scene.rate(scene.best)
    return Cost(
        seconds=seconds,
        trials=len(trials),
        found=share >= WITHIN,
        share=share,
        led_s=_led_s(scene, trials, goal),
    )


def _led_s(scene: Scene, trials: Sequence[Trial], goal: float) -> float:
    ledger = Ledger(scene.space)
    for trial in trials:
        ledger.add(trial)
        if ledger.leading is not None and scene.rate(ledger.leading) >= goal:
            break
    return ledger.elapsed_s


def theirs(scene: Scene, seed: int, strategy_name: str) -> Cost:
    """Until the best reading is a good one; or all trials are used up."""
    clock = VirtualClock()
    executor = SimulatedExecutor(scene.landscape, scene.machine, clock=clock)
    strategy = build_strategy(strategy_name, scene.space, seed)
    goal = WITHIN * scene.rate(scene.best)
    best_reading, answer = 0.0, scene.space.baseline()
    for number in range(MOST_TRIALS):
        candidate = scene.space.baseline() if number == 0 else strategy.ask()
        if candidate is None:
            break
        launch = Launch(
            spec=TrialSpec(
                trial_id=f"x-{number:04d}",
                workload=scene.target.workload,
                settings=scene.space.settings(candidate),
                environment=scene.space.environment(candidate),
                device=scene.space.facts.device,
                seed=seed,
                plan=FIXED,
            ),
            nodes=scene.target.nodes,
            ranks_per_node=scene.target.ranks_per_node,
            directory=Path("unused"),
            time_limit_s=600.0,
        )
        measured = executor.run(launch, lambda _: Verdict.GO, Event()).measurement
        value = score(measured).samples_per_second if measured else None
        strategy.tell(candidate, value)
        if value is not None and value > best_reading:
            best_reading, answer = value, candidate
            if scene.rate(candidate) >= goal:
                break
    share = scene.rate(answer) / scene.rate(scene.best)
    seconds = clock()
    return Cost(
        seconds=seconds, trials=number + 1, found=share >= WITHIN, share=share, led_s=seconds
    )


def exhaustive_s(scene: Scene) -> float:
    """Every candidate once, as the stack of today measures it."""
    clock = VirtualClock()
    executor = SimulatedExecutor(scene.landscape, scene.machine, clock=clock)
    sample = random.Random(0).sample(scene.candidates, min(100, len(scene.candidates)))
    for number, candidate in enumerate(sample):
        launch = Launch(
            spec=TrialSpec(
                trial_id=f"x-{number:04d}",
                workload=scene.target.workload,
                settings=scene.space.settings(candidate),
                environment=scene.space.environment(candidate),
                device=scene.space.facts.device,
                plan=FIXED,
            ),
            nodes=scene.target.nodes,
            ranks_per_node=scene.target.ranks_per_node,
            directory=Path("unused"),
            time_limit_s=600.0,
        )
        executor.run(launch, lambda _: Verdict.GO, Event())
    return clock() / len(sample) * len(scene.candidates)


def main() -> None:
    """Run all searches and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--scenes", nargs="*", default=SCENES)
    parser.add_argument("--noise", type=float, help="between launches, in percent")
    parser.add_argument("--against", nargs="*", default=["tpe", "random"])
    chosen = parser.parse_args()
    rows: list[list[object]] = []
    for name in chosen.scenes:
        recorded = Scene.of(name)
        if chosen.noise is not None:
            recorded = recorded.with_noise(chosen.noise)
        # A landscape of a GPU machine has launches of its own cost, the same for both.
        on_cpu = not recorded.machine.gpus
        mine = recorded.launched_in(FORKED_S) if on_cpu else recorded
        other = recorded.launched_in(TORCHRUN_S) if on_cpu else recorded
        costs = [ours(mine, seed) for seed in range(chosen.seeds)]
        exhaustive = exhaustive_s(other)
        for against in chosen.against:
            rivals = [theirs(other, seed, against) for seed in range(chosen.seeds)]
            quarter = sum(
                c.found and c.seconds <= r.seconds / 4 for c, r in zip(costs, rivals, strict=True)
            )
            soon = sum(
                c.found and c.led_s <= r.seconds / 4 for c, r in zip(costs, rivals, strict=True)
            )
            led = [c.led_s / r.seconds for c, r in zip(costs, rivals, strict=True)]
            ratios = [c.seconds / r.seconds for c, r in zip(costs, rivals, strict=True)]
            rows.append(
                [
                    name,
                    len(mine.candidates) if mine.is_complete else f"> {len(mine.candidates)}",
                    f"{sum(c.found for c in costs)} of {chosen.seeds}",
                    f"{fmean(c.share for c in costs):.3f}",
                    f"{median(c.led_s for c in costs):.0f}",
                    f"{median(c.seconds for c in costs):.0f}",
                    f"{100 * median(c.seconds for c in costs) / exhaustive:.1f} %",
                    against,
                    f"{sum(r.found for r in rivals)} of {chosen.seeds}",
                    f"{fmean(r.share for r in rivals):.3f}",
                    f"{median(r.seconds for r in rivals):.0f}",
                    f"{median(led):.2f}",
                    f"{median(ratios):.2f}",
                    f"{soon} of {chosen.seeds}",
                    f"{quarter} of {chosen.seeds}",
                ]
            )
            print(rows[-1], flush=True)
    table(
        ["landscape", "candidates", "ours within 2 %", "of the best", "led after, s",
         "confirmed after, s", "of exhaustive", "against", "within 2 %", "of the best", "after, s",
         "led / theirs", "confirmed / theirs", "led in a quarter or less",
         "confirmed in a quarter or less"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
