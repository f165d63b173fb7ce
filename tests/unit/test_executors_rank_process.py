"""The processes of a session are found and ended, and nobody else's."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from autotune.executors.family import Family
from autotune.executors.rank_environment import RankPlace, rank_environment, start_environment
from autotune.executors.rank_process import Rank, RankCommand, end_all
from autotune.executors.rank_starter import RankStarter

Start = Callable[[str], Rank]


@pytest.fixture(scope="module", params=["cold", "warm"])
def starter(request: pytest.FixtureRequest) -> Iterator[RankStarter]:
    starter = RankStarter(cold=request.param == "cold", bare=True)
    yield starter
    starter.close()


@pytest.fixture
def start(tmp_path: Path, starter: RankStarter) -> Start:
    def start(code: str) -> Rank:
        script = tmp_path / "rank.py"
        script.write_text(code)
        command = RankCommand(
            rank=0,
            arguments=(sys.executable, str(script)),
            environment={},
            log_path=tmp_path / "rank-0.log",
            descriptors=(),
        )
        return starter.start(command, Event())

    return start


def wait(rank: Rank) -> int:
    deadline = time.monotonic() + 30
    while (status := rank.exit_status()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return status


@pytest.mark.parametrize(
    ("code", "status"),
    [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_the_exit_status_is_there_before_and_after_the_rank_is_reaped(
    start: Start, code: str, status: int
) -> None:
    rank = start(code)
    assert wait(rank) == status
    assert not rank.reaped
    assert Path(f"/proc/{rank.pid}").exists(), "its number is taken as long as it isn't reaped"
    assert end_all([rank], term_s=1) == []
    assert rank.reaped
    assert not Path(f"/proc/{rank.pid}").exists()
    assert rank.exit_status() == status
    assert not rank.ended_by_us


def test_a_running_rank_is_ended_by_us(start: Start) -> None:
    rank = start("import time; time.sleep(600)")
    assert rank.exit_status() is None
    assert end_all([rank], term_s=5) == []
    assert rank.exit_status() == -15
    assert rank.ended_by_us


def test_a_reaped_rank_is_left_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = start("")
    wait(rank)
    end_all([rank], term_s=1)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("its number may be another's"))
    rank.pid = os.getsid(0)
    assert end_all([rank], term_s=1) == []


def test_a_name_with_parentheses_hides_nothing(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"], start_new_session=True) as process:
        assert Family({process.pid}).members() == [process.pid]
        process.kill()


def test_a_dead_process_is_no_member() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Family({process.pid}).members() == []


@pytest.mark.parametrize(("cores", "threads"), [(8, "4"), (5, "2"), (1, "1")])
def test_cores_are_shared_out(cores: int, threads: str) -> None:
    place = RankPlace(rank=1, ranks=2, port=1, channel_fd=3, store_fd=None)
    assert rank_environment({}, {}, place, cores=cores)["OMP_NUM_THREADS"] == threads


def test_a_rank_knows_its_place_on_its_node() -> None:
    place = RankPlace(
        rank=5, ranks=8, nodes=2, address="10.0.0.1", port=7, channel_fd=3, store_fd=None
    )
    found = rank_environment({}, {}, place, cores=8)
    expected = {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "7", "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    assert expected.items() <= found.items()


def test_no_candidate_moves_a_rank() -> None:
    place = RankPlace(rank=1, ranks=2, port=1234, channel_fd=3, store_fd=None)
    environment = rank_environment({"A": "a"}, {"RANK": "7", "A": "b"}, place, cores=1)
    assert (environment["RANK"], environment["A"]) == ("1", "b")


def test_only_what_is_read_at_the_start_needs_another_parent() -> None:
    late = {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "2", "FI_PROVIDER": "efa", "RANK": "0"}
    early = {
        "PATH": "/bin",
        "LD_PRELOAD": "x.so",
        "CUDA_VISIBLE_DEVICES": "1",
        "OMP_PROC_BIND": "1",
    }
    assert start_environment(early | late) == early
