"""From what ranks write when they hang to the rank that the others wait for."""

import json
import sysconfig

import pytest

from autotune.executors.standing import Frame, Standing, behind, describe, read_flight, read_stack

TORCH = "/venv/lib/python3.11/site-packages/torch"
STACKS = f"""step 3
Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f0000000002 [python] (most recent call first):
  File "{TORCH}/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "{TORCH}/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/me/model (1).py", line 12 in <lambda>
  File "<frozen runpy>", line 88 in _run_code

Extension modules: numpy.core (total: 1)
"""


def waiting(rank: int, **changes: object) -> Standing:
    return Standing(rank=rank, frames=read_stack(STACKS), **changes)


def busy(rank: int, **changes: object) -> Standing:
    frame = Frame(file="/home/me/data.py", line=7, function="load")
    return Standing(rank=rank, frames=(frame,), **changes)


def test_the_main_threads_stack_is_read_wherever_it_stands() -> None:
    frames = read_stack(STACKS)
    assert [frame.line for frame in frames] == [3252, 83, 12, 88]
    assert frames[2] == Frame(file="/home/me/model (1).py", line=12, function="<lambda>")
    assert [frame.is_library for frame in frames] == [True, True, False, True]


@pytest.mark.parametrize(
    "text", ["", "\0" * 100, 'File "a", line 1 in b', "Thread 0x1 (most recent"]
)
def test_what_is_no_stack_is_none(text: str) -> None:
    assert read_stack(text) == ()


def test_a_package_that_uses_torch_is_no_library() -> None:
    file = f"{sysconfig.get_path('stdlib')}/site-packages/trainer/loop.py"
    assert not Frame(file=file, line=1, function="f").is_library
    assert not Frame(file="/home/me/torch/train.py", line=1, function="f").is_library


def test_the_flight_record_tells_what_was_called() -> None:
    record = {
        "pg_status": {"0": {"last_enqueued_collective": "4"}, "1": {"last_enqueued_collective": 2}},
        "entries": [{"profiling_name": "nccl:all_reduce"}],
    }
    assert read_flight(json.dumps(record)) == ({0: 4, 1: 2}, "nccl:all_reduce")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", '{"pg_status": [1]}', '{"pg_status": {"0": {}}}', '{"entries": [7]}', "["],
)
def test_what_is_no_flight_record_tells_nothing(text: str) -> None:
    assert read_flight(text) == ({}, "")


def test_the_rank_that_is_not_waiting_is_behind() -> None:
    late = behind([waiting(0), busy(1), waiting(2)])
    assert late is not None
    assert late.rank == 1


def test_calls_tell_more_than_stacks() -> None:
    late = behind([waiting(0, called={0: 3, 1: 1}), busy(1, called={0: 4, 2: 9})])
    assert late is not None
    assert late.rank == 0


def test_a_process_that_cannot_run_is_behind_whatever_it_was_at() -> None:
    late = behind([busy(0, called={0: 3}), waiting(1, called={0: 4}, state="T")])
    assert late is not None
    assert late.rank == 1
    assert late.describe() == "is stopped by a signal (SIGSTOP)"


@pytest.mark.parametrize("standings", [[], [waiting(0), waiting(1)], [busy(0), busy(1)]])
def test_nobody_is_named_without_evidence(standings: list[Standing]) -> None:
    assert behind(standings) is None


def test_the_sentence_begins_with_the_rank_that_is_behind() -> None:
    text = describe([waiting(0, last_call="gloo:all_reduce"), busy(1), waiting(2)])
    assert text == (
        "rank 1 is at /home/me/data.py:7 in load; "
        "rank 0 waits in gloo:all_reduce, called at /home/me/model (1).py:12 in <lambda>"
    )
    assert Standing(rank=0).describe() == "does not say where it is"
