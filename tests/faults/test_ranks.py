"""Ranks that fail in every way that ranks can: items 1, 2, 4, 5, 6, 10 and 14 of the fault list.

One study has a fault in every trial. Its baseline's trials have those that must not fail it. All
candidates fail, so that nothing is confirmed; the study's answer is the baseline.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import cgroups
from tests.faults.conftest import Home

BASELINE = {
    0: "step_leave_things_behind_1",
    1: "leave_sleep,step_stopped_briefly_2",
    2: "step_print_garbage_2",
}
FAULTS = BASELINE | {
    3: "step_sleep_3",
    4: "build_sleep",
    5: "step_out_of_memory_1",
    6: "step_swallow_address_space_1",
    7: "step_stubborn_family_1",
    8: "step_segfault_2",
    9: "step_sigbus_2",
    10: "step_abort_2",
    11: "step_exit_0_2",
    12: "step_cut_message_2",
    13: "step_print_garbage_1,step_die_1",
    14: "step_stopped_2",
    # It is launched again, and that it works is none of this test's business.
    15: "step_exit_0_0",
}
STUDY = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--strategy", "random",
    "--global-batch", "8", "--window", "0.05s",
)  # fmt: skip


def lasting_segments(before: set[str], limit_s: float = 20.0) -> set[str]:
    """Of shared memory, newer than `before`. Those of other tests' studies come and go."""
    deadline = time.monotonic() + limit_s
    left = set(os.listdir("/dev/shm")) - before
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left &= set(os.listdir("/dev/shm"))
    return left


class Ended:
    """The study, once it has ended."""

    def __init__(self, home: Home) -> None:
        home.plant("controller_faults:plant", FAULTS)
        home.environment["AUTOTUNE_TEST_SLACK"] = "6"
        self.temporary = home.path / "temporary"
        self.temporary.mkdir()
        home.environment["TMPDIR"] = str(self.temporary)
        before = set(os.listdir("/dev/shm"))
        self.answer = home.call(*STUDY, "--trials", str(len(FAULTS) - 1 - len(BASELINE)))
        self.processes = home.processes()
        self.segments = lasting_segments(before)
        self.trials = home.trials()
        self.shown = home.call("show", "latest").stdout
        self.home = home

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.trials[number]

    def log(self, number: int, rank: int) -> Path:
        (path,) = self.home.path.glob(f"data/runs/*/trial-{number:04d}/rank-{rank}.log")
        return path


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        yield Ended(Home(path=tmp_path_factory.mktemp("ranks")))


def test_the_study_survives_all_of_it(ended: Ended) -> None:
    assert [trial["outcome"] for trial in ended.trials[:3]] == ["completed"] * 3
    assert len(ended.trials) == len(FAULTS)
    assert "Keep the defaults" in ended.answer.stdout
    for trial in ended.trials[3:]:
        assert trial["outcome"] not in ("completed", "pruned"), trial["number"]
        assert trial["reason"]
        assert Path(trial["log_path"]).exists()


def test_nothing_is_left(ended: Ended) -> None:
    assert ended.processes == []
    assert ended.segments == set()
    assert [path.name for path in ended.temporary.iterdir() if "autotune" in path.name] == []


def test_what_a_trial_left_is_ended_removed_and_shown(ended: Ended) -> None:
    left = ended[0]["left_behind"]
    # The two children, and Python's own process that keeps account of shared memory.
    assert "3 processes that outlived the ranks, ended" in left
    assert "of shared memory (" in left
    assert "removed" in left
    assert f"by trial 0: {left}" in ended.shown
    assert {trial["left_behind"] for trial in ended.trials[3:]} == {""}


def test_a_rank_that_sleeps_in_a_step_is_named_with_where_it_is(ended: Ended) -> None:
    assert (ended[3]["outcome"], ended[3]["failed_rank"]) == ("hung", 1)
    assert "no sign of life" in ended[3]["reason"]
    assert "after 3 steps" in ended[3]["reason"]
    assert "rank 1 is at" in ended[3]["reason"]
    assert "in sleep_here; rank 0 waits in" in ended[3]["reason"]
    assert "in sleep_here" in ended[3]["log_tail"]


def test_so_is_one_that_sleeps_before_the_first(ended: Ended) -> None:
    assert (ended[4]["outcome"], ended[4]["failed_rank"]) == ("hung", 1)
    assert "after 0 steps" in ended[4]["reason"]
    assert "rank 1 is at" in ended[4]["reason"]


def test_a_rank_that_runs_out_of_memory_is_the_cause_and_not_the_one_that_waits(
    ended: Ended,
) -> None:
    assert (ended[5]["outcome"], ended[5]["failed_rank"]) == ("out_of_memory", 1)
    assert ended[5]["seconds"] < 60, "the other waits in a collective"
    assert (ended[6]["outcome"], ended[6]["failed_rank"]) == ("out_of_memory", 1)


def test_a_rank_that_minds_no_signal_ends_with_its_children(ended: Ended) -> None:
    assert (ended[7]["outcome"], ended[7]["failed_rank"]) == ("hung", 1)


@pytest.mark.parametrize(
    ("number", "outcome", "rank", "says"),
    [
        (8, "crashed", 1, "rank 1 was ended by SIGSEGV"),
        (9, "crashed", 1, "rank 1 was ended by SIGBUS"),
        (10, "crashed", 1, "rank 1 was ended by SIGABRT"),
        (11, "no_metric", 1, "rank 1 exited with status 0 before the trial had a result"),
        (12, "crashed", 0, "rank 0 stopped in the middle of a message"),
        (13, "crashed", 0, "rank 0 exited with status 3; the last line of its log: last words"),
    ],
)
def test_how_a_rank_died_is_said(
    ended: Ended, number: int, outcome: str, rank: int, says: str
) -> None:
    trial = ended[number]
    assert (trial["outcome"], trial["failed_rank"]) == (outcome, rank)
    assert trial["reason"].startswith(says)


def test_garbage_in_quantity_neither_fail_a_trial_nor_fill_the_disk(ended: Ended) -> None:
    assert ended[2]["outcome"] == "completed"
    assert ended.log(2, 0).stat().st_size < 2**17
    assert ended.log(13, 0).stat().st_size < 2**22
    content = ended.log(13, 0).read_bytes()
    assert content.endswith(b"last words\n")
    assert b'"type": "finished"' in content, "its beginning is there too"
    assert b"bytes left out here]" in content


def test_a_rank_that_was_stopped_is_nobodys_fault(ended: Ended) -> None:
    """By SIGSTOP: beyond the limit the trial is launched again; a shorter stop it survives."""
    assert (ended[14]["outcome"], ended[14]["failed_rank"]) == ("environment", 1)
    assert "rank 1 is stopped by a signal (SIGSTOP)" in ended[14]["reason"]
    assert ended[15]["candidate"] == ended[14]["candidate"]
    assert ended[1]["outcome"] == "completed"


@pytest.mark.skipif(bool(cgroups.why_not("memory")), reason=cgroups.why_not("memory"))
def test_a_rank_that_the_kernel_kills_for_memory(home: Home) -> None:
    home.plant("controller_faults:plant", {3: "step_swallow_memory_1"})
    with cgroups.group("memory", memory_limit_in_bytes=str(1800 * 2**20)) as group:
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        home.call(*STUDY, "--trials", "1", prefix=enter)
    trial = home.trials()[3]
    assert (trial["outcome"], trial["failed_rank"]) == ("out_of_memory", 1)
    assert "killed (SIGKILL), most likely by the kernel's out-of-memory killer" in trial["reason"]
    assert home.processes() == []


@pytest.mark.skipif(bool(cgroups.why_not("freezer")), reason=cgroups.why_not("freezer"))
def test_a_rank_that_cannot_be_ended_keeps_its_devices_from_other_trials(home: Home) -> None:
    """Kin of a process stuck in the kernel: one in a frozen control group, which stays so."""
    home.plant("controller_faults:plant", {0: "step_frozen_1"})
    home.environment["AUTOTUNE_TEST_SLACK"] = "2"
    with cgroups.group("freezer") as group:
        home.environment["AUTOTUNE_TEST_FREEZER"] = str(group)
        answer = home.call(*STUDY, "--trials", "1", expect=1)
        (stuck,) = (group / "cgroup.procs").read_text().split()
    first, *others = home.trials()
    assert (first["outcome"], first["failed_rank"]) == ("environment", 1)
    assert f"stuck in the kernel: pid {stuck}" in first["reason"]
    for trial in others:
        assert trial["outcome"] == "environment"
        assert f"still hold its devices: pid {stuck};" in trial["reason"]
    assert "trials can't be run here" in answer.stdout
    home.wait_until_alone(10)


@pytest.mark.long
def test_ten_gigabytes(home: Home) -> None:
    home.plant("controller_faults:plant", {0: "step_print_garbage_1", "*": "step_exit_0_0"})
    home.environment["AUTOTUNE_TEST_MEBIBYTES"] = "10240"
    answer = home.call(*STUDY, "--trials", "1", limit_s=280)
    assert "the other candidate did not work" in answer.stdout
    assert home.trials()[0]["outcome"] == "completed"


@pytest.mark.long
def test_a_hang_is_called_twenty_seconds_after_its_window(home: Home) -> None:
    home.plant("controller_faults:plant", {1: "step_sleep_12"})
    home.call(*STUDY, "--trials", "1")
    trial = home.trials()[1]  # of the baseline, which nothing stops early
    assert trial["outcome"] == "hung"
    assert "no sign of life for 2" in trial["reason"]
