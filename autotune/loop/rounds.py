"""The rounds of confirmation: which of them count, and whether more of them would help."""

import math
from collections.abc import Mapping, Sequence

from autotune.model import Candidate, Timings, Trial
from autotune.scoring.compare import contrasts
from autotune.scoring.design import MIN_ROUNDS
from autotune.scoring.looks import looks, may_show
from autotune.scoring.noise import Noise
from autotune.scoring.score import score

Rounds = Mapping[Candidate, Sequence[Timings]]
"""Measurements of each arm, one for each round."""


def complete_rounds(
    arms: Sequence[Candidate],
    baseline: Candidate,
    launches: Mapping[Candidate, Sequence[Trial]],
) -> dict[Candidate, list[Timings]]:
    """For each arm that never failed, its measurements in rounds that all such arms completed."""
    arms = [
        arm
        for arm in arms
        if arm == baseline or all(trial.scored for trial in launches.get(arm, []))
    ]
    count = min((len(launches.get(arm, [])) for arm in arms), default=0)
    usable = [index for index in range(count) if all(launches[arm][index].scored for arm in arms)]
    return {arm: [m for index in usable if (m := launches[arm][index].scored)] for arm in arms}


def rates(rounds: Rounds) -> dict[Candidate, list[float]]:
    """Samples/s of each arm, one for each round."""
    return {
        arm: [score(measurement).samples_per_second for measurement in measurements]
        for arm, measurements in rounds.items()
    }


def noise_with(noise: Noise, rounds: Rounds, baseline: Candidate) -> Noise:
    """`noise` with what the first MIN_ROUNDS of `rounds` say of it; as it is if there are fewer.

    How far launches differ says nothing of who is ahead, so planning by it favours no reading.
    Source: Wittes and Brittain, The Role of Internal Pilot Studies in Increasing the Efficiency of
    Clinical Trials (1990).
    """
    finalists = {arm: found[:MIN_ROUNDS] for arm, found in rates(rounds).items()}
    reference = finalists.pop(baseline, [])
    if len(reference) < MIN_ROUNDS or not finalists:
        return noise
    found = next(iter(contrasts(reference, finalists).values()))
    return noise.pooled(found.error * math.sqrt(MIN_ROUNDS / 2), found.freedom)


def is_futile(rounds: Rounds, baseline: Candidate, done: int, planned: int) -> bool:
    """Whether the rounds end after `done` of those `planned`, for the rest would show no gain."""
    if done not in looks(planned):
        return False
    finalists = rates(rounds)
    reference = finalists.pop(baseline, [])
    if not finalists:
        return True
    if len(reference) < MIN_ROUNDS:
        return False
    return not may_show(contrasts(reference, finalists).values(), done, planned)
