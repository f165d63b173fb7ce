"""The controller is killed at any moment, suspended, or not alone: item 11 and 13."""

import random
import signal
import time

import pytest

from autotune.exporters.document import read
from autotune.model import Phase
from tests.faults.store_faults import SIMULATED, Place, course, place, undisturbed

__all__ = ["place", "undisturbed"]
Course = list[tuple[object, ...]]


def kill_and_resume(place: Place, kills: int, chance: random.Random, *arguments: str) -> None:
    """Kill the study so often at random moments, resuming it each time, and let it end then."""
    command = place.start(*arguments)
    stored: Course = []
    for _ in range(kills):
        command.wait_for(chance.choice([0, 0, 1, 2]))
        # Within a trial, or what the store does at its end.
        time.sleep(chance.uniform(0, 0.1))
        command.kill()
        if not place.run_ids():
            command = place.start(*arguments)
            continue
        now = course(place.trials())
        assert now[: len(stored)] == stored, "a finished trial was lost or changed"
        assert set(command.ended) <= {row[0] for row in now}
        stored = now
        if place.has_finished():
            return
        command = place.start("resume", "latest")
    command.finish()


def test_a_study_that_is_killed_again_and_again_is_the_same_study(
    place: Place, undisturbed: Course
) -> None:
    kill_and_resume(place, 6, random.Random(5), *SIMULATED)
    assert course(place.trials()) == undisturbed
    assert len(place.run_ids()) == 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(5))
def test_fifty_kills_lose_no_trial_and_repeat_none(
    place: Place, undisturbed: Course, seed: int
) -> None:
    kill_and_resume(place, 10, random.Random(seed), *SIMULATED)
    assert course(place.trials()) == undisturbed


def test_of_two_that_resume_a_run_one_goes_on(place: Place, undisturbed: Course) -> None:
    command = place.start(*SIMULATED)
    command.wait_for(3)
    command.kill()
    both = [place.start("resume", "latest", trial_s=0.3) for _ in range(2)]
    both[0].wait_until(lambda: any(one.process.poll() is not None for one in both))
    one, other = sorted(both, key=lambda command: command.process.poll() is None)
    refused = one.finish(expect=2)
    assert "is being run by another process, pid " in refused
    assert "hint: wait until it has ended" in refused
    other.finish()
    assert course(place.trials()) == undisturbed


def test_one_that_was_suspended_while_another_took_over_stops_without_writing(
    place: Place, undisturbed: Course
) -> None:
    short = {"autotune.run_lease:LEASE_S": 2.0, "autotune.run_lease:BEAT_S": 0.3}
    first = place.start(*SIMULATED, constants=short, trial_s=0.2)
    first.wait_for(3)
    first.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(2.5)
        place.run("resume", "latest")
        finished = place.trials()
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert "another process took over run" in first.finish(expect=1)
    assert place.trials() == finished
    assert course(finished) == undisturbed


def test_two_studies_share_a_store(place: Place, undisturbed: Course) -> None:
    both = [place.start(*SIMULATED) for _ in range(2)]
    for command in both:
        command.finish()
    first, second = place.run_ids()
    assert course(place.trials(first)) == course(place.trials(second)) == undisturbed


REAL = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--global-batch", "8",
    "--only", "bucket_cap_mb", "--set", "strategy=ddp", "--trials", "2", "--window", "0.05s",
    "--budget", "60s", "--output", "best.yaml",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_real_trials_are_kept_through_kills(place: Place) -> None:
    """Their figures are never the same again, so only that each trial is there once is seen."""
    place.is_patched = False
    kill_and_resume(place, 5, random.Random(1), *REAL)
    trials = place.trials()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert all(trial.scored for trial in trials if trial.phase is not Phase.SEARCH)
    assert read(place.folder / "best.yaml").run_id == trials[0].run_id
