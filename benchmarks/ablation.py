"""What each part of the search is worth: whole studies without it, beside studies with all of them.

    python benchmarks/ablation.py --seeds 20

Virtual time, the same landscapes, noise and seeds for each line. A part is left out by replacing
one function or figure, so that nothing in the product exists for this benchmark alone.
"""

import argparse
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from statistics import fmean, median
from unittest.mock import patch

import numpy as np
from simulated_studies import Scene, study, table

from autotune.model import Candidate
from autotune.model.protocol import Verdict
from autotune.strategies.effects_prior import HYPOTHESES
from autotune.strategies.staged import StagedStrategy

WITHIN = 0.98
SCENES = ("all-equal", "one-better", "two-ranks", "two-hosts", "additive", "interacting")
BUDGET_S, GPU_BUDGET_S = 600.0, 7200.0
"""On landscapes of a CPU, where a launch takes a second or so, and of GPUs, where it takes 13."""


def _never(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


def _all_windows(*_: object, **__: object) -> Verdict:
    return Verdict.GO


_ASK, _TELL = StagedStrategy.ask, StagedStrategy.tell


def _asked_before(self: StagedStrategy, beside: Collection[Candidate] = ()) -> Candidate | None:
    """What was proposed while the last trial ran, if that is still to be tried."""
    ahead: Candidate | None = self.__dict__.pop("ahead", None)
    return ahead if ahead is not None and ahead not in self._told else _ASK(self, beside)


def _told_after(self: StagedStrategy, candidate: Candidate, value: float | None) -> None:
    self.__dict__["ahead"] = _ASK(self, [candidate])
    _TELL(self, candidate, value)


_SHARE_ALONE = np.array([1.0, 1.0, 1.0, 0.0])

LEFT_OUT: dict[str, dict[str, object]] = {
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
    "effects beside large knobs": {
        "autotune.strategies.effects_model.HYPOTHESES": HYPOTHESES * _SHARE_ALONE
    },
    "all hypotheses but the likeliest": {"autotune.strategies.effects_model.LIKELY": 1.0},
    "steps uphill in the model": {"autotune.strategies.staged.MOST_STEPS": 0},
    "the last result of each proposal": {
        "autotune.strategies.staged.StagedStrategy.ask": _asked_before,
        "autotune.strategies.staged.StagedStrategy.tell": _told_after,
    },
}
STRATEGIES = ("random", "tpe")
"""In place of `staged`, with all of the loop: what its stages and model are worth."""


def one(left_out: str, strategy: str, name: str, seed: int) -> tuple[float, float, int]:
    """One study: its answer's true speed over the best's, its seconds and launches."""
    scene = Scene.of(name).with_noise(4.0)
    budget_s = GPU_BUDGET_S
    if not scene.machine.gpus:
        scene, budget_s = scene.launched_in(0.1), BUDGET_S
    with ExitStack() as stack:
        for target, replacement in LEFT_OUT[left_out].items():
            stack.enter_context(patch(target, replacement))
        end, trials, seconds = study(scene, seed, strategy=strategy, budget_s=budget_s)
    return scene.rate(end.decision.candidate) / scene.rate(scene.best), seconds, len(trials)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--scenes", nargs="*", default=list(SCENES), choices=SCENES)
    parser.add_argument("--left-out", nargs="*", default=list(LEFT_OUT), choices=list(LEFT_OUT))
    parser.add_argument("--strategies", nargs="*", default=list(STRATEGIES), choices=STRATEGIES)
    options = parser.parse_args(arguments)
    variants = [(name, "staged") for name in options.left_out]
    variants += [("nothing", strategy) for strategy in options.strategies]
    rows: list[list[object]] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for scene in options.scenes:
            for left_out, strategy in variants:
                run = partial(one, left_out, strategy, scene)
                done = list(pool.map(run, range(options.seeds)))
                rows.append(_row(scene, left_out, strategy, done))
                print(*rows[-1], sep=" | ", flush=True)
    print()
    table(
        ["landscape", "left out", "strategy", "within 2 %", "of the best", "seconds", "launches"],
        rows,
    )


def _row(
    scene: str, left_out: str, strategy: str, done: Sequence[tuple[float, float, int]]
) -> list[object]:
    found = sum(one[0] >= WITHIN for one in done)
    seconds, launches = median(one[1] for one in done), median(one[2] for one in done)
    return [
        scene, left_out, strategy, f"{found} of {len(done)}",
        f"{fmean(one[0] for one in done):.3f}", f"{seconds:.0f}", f"{launches:.0f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
