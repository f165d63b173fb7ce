"""What each part of the search is worth: whole studies without it, beside studies with all of them.

    python benchmarks/ablation.py --seeds 20

Virtual time, the same landscapes, noise and seeds for each line. A part is left out by replacing
one function of the loop, so that nothing in the product exists for this benchmark alone.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from statistics import median
from unittest.mock import patch

from simulated_studies import Scene, study, table

from autotune.model.protocol import Verdict

WITHIN = 0.98
SCENES = ("all-equal", "one-better", "two-ranks", "two-hosts")


def _never(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


def _all_windows(*_: object, **__: object) -> Verdict:
    return Verdict.GO


LEFT_OUT: dict[str, dict[str, Callable[..., object]]] = {
    "nothing": {},
    "stopping lost trials": {"autotune.loop.race.Race._has_lost": _never},
    "stopping trials at all": {"autotune.loop.race.Race.verdict": _all_windows},
    "second looks": {"autotune.loop.plan.Plan._second_look": _nothing},
    "the contest": {"autotune.loop.contest.Contest.next": _nothing},
    "second looks and the contest": {
        "autotune.loop.plan.Plan._second_look": _nothing,
        "autotune.loop.contest.Contest.next": _nothing,
    },
    "early ends of confirmation": {"autotune.loop.plan.is_futile": _never},
    "skipping what is known in disguise": {"autotune.loop.study.known_in_disguise": _nothing},
}
STRATEGIES = ("random", "tpe")
"""In place of `staged`, with all of the loop: what its stages and model are worth."""


def one(left_out: str, strategy: str, name: str, seed: int) -> tuple[bool, float, int]:
    """One study: whether its answer is truly within 2 % of the best, its seconds and launches."""
    scene = Scene.of(name).launched_in(0.1).with_noise(4.0)
    with ExitStack() as stack:
        for target, replacement in LEFT_OUT[left_out].items():
            stack.enter_context(patch(target, replacement))
        end, trials, seconds = study(scene, seed, strategy=strategy, budget_s=600.0)
    found = scene.rate(end.decision.candidate) >= WITHIN * scene.rate(scene.best)
    return found, seconds, len(trials)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--scenes", nargs="*", default=list(SCENES), choices=SCENES)
    options = parser.parse_args(arguments)
    variants = [(name, "staged") for name in LEFT_OUT] + [("nothing", s) for s in STRATEGIES]
    rows: list[list[object]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for scene in options.scenes:
            for left_out, strategy in variants:
                run = partial(one, left_out, strategy, scene)
                done = list(pool.map(run, range(options.seeds)))
                rows.append(_row(scene, left_out, strategy, done))
                print(*rows[-1], sep=" | ", flush=True)
    print()
    table(["landscape", "left out", "strategy", "within 2 %", "seconds", "launches"], rows)


def _row(
    scene: str, left_out: str, strategy: str, done: Sequence[tuple[bool, float, int]]
) -> list[object]:
    found = sum(one[0] for one in done)
    seconds, launches = median(one[1] for one in done), median(one[2] for one in done)
    return [
        scene, left_out, strategy, f"{found} of {len(done)}", f"{seconds:.0f}", f"{launches:.0f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
