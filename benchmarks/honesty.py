"""How often a study is wrong: false winners, missed gains, intervals that don't hold, bias.

    python benchmarks/honesty.py --studies 200

Simulated studies over many seeds, at several levels of noise between launches: where all candidates
are equal, and where one group of them is truly 5 % faster.
"""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean

from simulated_studies import Scene, study, table

from autotune.model import Conclusion

NOISE_PERCENT = (1.0, 2.0, 4.0, 8.0)
EQUAL, BETTER = "all-equal", "one-better"


@dataclass(frozen=True)
class Verdict:
    """What one study said, and what is true."""

    conclusion: Conclusion
    claimed: float | None
    """Of the candidate with an interval, over the baseline."""
    low: float | None
    high: float | None
    true: float | None
    launches: int
    seconds: float


def verdict(name: str, noise_percent: float, seed: int) -> Verdict:
    """Run one study."""
    scene = _scene(name, noise_percent)
    scene = replace(scene, landscape=replace(scene.landscape, seed=seed))
    end, trials, seconds = study(scene, seed)
    ratio = end.decision.ratio
    compared = end.decision.compared
    true = None
    if ratio is not None and compared is not None:
        true = scene.rate(compared) / scene.rate(scene.space.baseline())
    return Verdict(
        conclusion=end.decision.conclusion,
        claimed=ratio.estimate if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        true=true,
        launches=len(trials),
        seconds=seconds,
    )


@cache
def _scene(name: str, noise_percent: float) -> Scene:
    scene = Scene.of(name)
    noise = replace(scene.landscape.noise, launch_percent=noise_percent)
    return replace(scene, landscape=replace(scene.landscape, noise=noise))


def row(name: str, noise_percent: float, verdicts: Sequence[Verdict]) -> list[object]:
    """One line of the table."""
    improved = [v for v in verdicts if v.conclusion is Conclusion.IMPROVED]
    judged = [v for v in verdicts if v.true is not None and v.low is not None]
    held = sum(v.low <= v.true <= v.high for v in judged)  # type: ignore[operator]
    bias = [v.claimed / v.true - 1 for v in improved if v.claimed and v.true]
    share = f"{100 * len(improved) / len(verdicts):.1f} %"
    return [
        name,
        f"{noise_percent:g} %",
        share if name == EQUAL else "",
        share if name == BETTER else "",
        f"{100 * held / len(judged):.1f} % of {len(judged)}" if judged else "",
        f"{100 * fmean(bias):+.2f} %" if bias else "",
        f"{fmean(v.launches for v in verdicts):.0f}",
        f"{fmean(v.seconds for v in verdicts) / 60:.1f}",
    ]


def main() -> None:
    """Run the studies on all cores and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--noise", type=float, nargs="*", default=NOISE_PERCENT)
    parser.add_argument("--landscapes", nargs="*", default=(EQUAL, BETTER))
    parser.add_argument("--first", type=int, default=0, help="seed: tune on others than reported")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.studies)
    rows = []
    with ProcessPoolExecutor(chosen.processes) as pool:
        for name in chosen.landscapes:
            for noise in chosen.noise:
                run = partial(verdict, name, noise)
                verdicts = list(pool.map(run, seeds, chunksize=5))
                rows.append(row(name, noise, verdicts))
                print(rows[-1], flush=True)
    table(
        ["landscape", "noise", "false winners", "gain of 5 % found", "interval holds", "bias",
         "launches", "minutes"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
