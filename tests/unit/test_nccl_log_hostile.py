"""Logs that are cut, mixed, prefixed, huge or made up."""

import os
from pathlib import Path

import pytest

from autotune.errors import UserError
from autotune.trainers.nccl_log import (
    NcclReadback,
    merge,
    parse,
    parse_processes,
    read_log,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nccl"
EFA = (FIXTURES / "2.27-efa.log").read_text()
TAKEN = "host:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608."


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank0]: ",
        "[rank0]:",
        "[1,3]<stdout>:",
        "[default0]:",
        "0: ",
        "0:",
        "[2026-03-12 14:17:56] ",
        "[1,0]<stdout>:[2026-03-12 14:17:56] ",
        "2025-05-22T14:26:33.406-07:00 | ",
        "\x1b[36m(worker pid=77)\x1b[0m ",
    ],
)
def test_prefixes_of_launchers(prefix: str) -> None:
    plain = parse(EFA.splitlines())
    assert parse(prefix + line for line in EFA.splitlines()) == plain


@pytest.mark.parametrize(
    "place",
    [
        "enqueue.cc:1694 ",
        "enqueue.cc:1694 (ncclLaunch) ",
        "int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**):263 ",
        "",
    ],
)
def test_places_of_warnings(place: str) -> None:
    (readback,) = parse_processes([f"[2026-01-01 00:00:00] h:1:2 [0] {place}NCCL WARN Oh no"])
    assert readback.warnings == ("Oh no",)


def test_a_prefix_does_not_make_another_process() -> None:
    assert len(parse_processes([TAKEN, f"[rank0]:{TAKEN}", f"0: {TAKEN}"])) == 1


def test_two_processes_in_one_file_are_told_apart() -> None:
    first = EFA.splitlines()
    second = [line.replace(":51:", ":52:").replace("rank 0 n", "rank 1 n") for line in first]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    a, b = parse_processes(mixed)
    assert a.communicators[0].rank == 0
    assert b.communicators[0].rank == 1
    assert a.environment == b.environment == parse(first).environment
    assert a.communicators[0].coll_channels == b.communicators[0].coll_channels == 8
    both = parse(mixed)
    assert both.processes == 2
    assert len(both.communicators) == 2
    assert [choice.count for choice in both.choices] == [2, 2]


def test_rows_of_a_matrix_that_another_process_wrote_into_are_left_out() -> None:
    lines = EFA.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("    AllGather |"))
    head, tail = lines[at][:60], lines[at][60:]
    lines[at : at + 1] = [f"{head}ip-10-1-0-9:52:52 [1] NCCL INFO threadThresholds 8/8/64", tail]
    rows = [row.collective for row in parse(lines).enabled]
    assert rows == ["Broadcast", "Reduce", "ReduceScatter", "AllReduce"]


MATRIX = [
    "h:1:2 [0] NCCL INFO Enabled NCCL Func/Proto/Algo Matrix:",
    "Function | LL Simple | Tree Ring",
    "Reduce | 1 1 | 0 1",
]


@pytest.mark.parametrize(
    "row",
    [
        "AllReduce | 1 1 | 1",
        "AllReduce | 1 1 | 1 1 1",
        "AllReduce | 1 | 1 1",
        "AllReduce | 1 1 | 1 x",
        "AllReduce | 1 1",
        "| 1 1 | 1 1",
    ],
)
def test_rows_that_do_not_fit_the_header_are_left_out(row: str) -> None:
    assert [row.collective for row in parse([*MATRIX, row]).enabled] == ["Reduce"]


def test_a_matrix_ends_with_the_next_message_of_its_process() -> None:
    row = "AllReduce | 1 1 | 1 1"
    assert len(parse([*MATRIX, row]).enabled) == 2
    assert len(parse([*MATRIX, "h:1:2 [0] NCCL INFO Connected all rings", row]).enabled) == 1
    assert len(parse([*MATRIX, "h:7:7 [0] NCCL INFO Connected all rings", row]).enabled) == 2


def test_a_message_interrupted_by_another_is_not_believed() -> None:
    torn = "h:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 838" + TAKEN
    readback = parse([torn])
    assert readback.environment == {"NCCL_BUFFSIZE": "8388608"}
    assert readback.torn == 1
    assert readback.truncated


def test_a_message_without_its_head_is_still_one() -> None:
    assert parse(["NCCL INFO NCCL_ALGO set by environment to Ring"]).environment == {
        "NCCL_ALGO": "Ring"
    }


def test_every_cut_of_a_log_is_read_and_the_line_at_the_cut_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = EFA.encode()
    whole = read_log(FIXTURES / "2.27-efa.log")
    for end in range(0, len(data), 101):
        path.write_bytes(data[:end])
        readback = read_log(path)
        assert readback.environment.items() <= whole.environment.items()
        assert set(readback.choices) <= set(whole.choices)
        assert set(readback.enabled) <= set(whole.enabled)


def test_a_large_file_is_read_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    filler = "h:1:2 [0] NCCL INFO filler\n" * 5000
    late = "h:1:2 [0] NCCL INFO Using network IB\n"
    middle = "h:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    path.write_text(TAKEN + "\n" + filler + middle + filler + late)
    readback = read_log(path, largest_bytes=10_000)
    assert readback.environment == {"NCCL_BUFFSIZE": "8388608"}
    assert readback.network == "IB"
    assert readback.skipped_bytes == path.stat().st_size - 10_000
    assert readback.truncated
    whole = read_log(path)
    assert whole.environment["NCCL_ALGO"] == "Ring"
    assert not whole.truncated


def test_no_part_of_a_line_is_taken_for_the_whole(tmp_path: Path) -> None:
    line = "host:1:2 [0] NCCL INFO NCCL_ALGO set by environment to ring,tree,nvls\n"
    path = tmp_path / "log"
    path.write_text(line * 50)
    for largest in range(4 * len(line), 6 * len(line)):
        readback = read_log(path, largest_bytes=largest)
        assert readback.environment == {"NCCL_ALGO": "ring,tree,nvls"}
        assert readback.processes == 1
    path.write_text(line + line[:-6])
    assert read_log(path).environment == {"NCCL_ALGO": "ring,tree,nvls"}


@pytest.mark.parametrize("largest", [len(EFA.encode()) + d for d in (-3, -2, -1, 0, 1, 2)])
def test_a_file_about_as_large_as_the_limit(largest: int) -> None:
    readback = read_log(FIXTURES / "2.27-efa.log", largest_bytes=largest)
    assert readback.skipped_bytes == max(0, len(EFA.encode()) - largest // 2 * 2)
    assert readback.nccl_version == "2.27.5"
    assert readback.choices[-1].collective == "AllGather"


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(UserError, match="can't be read"):
            read_log(path)


def test_nothing_at_all() -> None:
    assert parse([]) == NcclReadback()
    assert merge([]).readback == NcclReadback()


@pytest.mark.parametrize(
    "line",
    [
        "h:1:2 [0] NCCL INFO "
        + "9" * 5000
        + " coll channels, 1 p2p channels, 1 p2p channels per peer",
        "h:1:2 [0] NCCL INFO -3 coll channels, 1 p2p channels, 1 p2p channels per peer",
        "h:1:2 [0] NCCL INFO ٣ coll channels, ٣ p2p channels, ٣ p2p channels per peer",
        "h:1:2 [0] NCCL INFO 3 coll channels, 3 p2p channels, 3 p2p",
        "h:1:2 [0] NCCL INFO AllReduce: 1e9 Bytes -> Algo RING proto LL",
        "h:1:2 [0] NCCL INFO AllReduce: 9 Bytes -> Algo RING proto ",
        "h:1:2 [0] NCCL INFO " + "9" * 30 + " Bytes -> Algo RING proto LL",
        "h:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw nan/inf, type A/B, "
        "sameChannels 1",
        "h:1:2 [0] NCCL INFO P2P Chunksize set to 0x20",
        "h:1:2 [0] NCCL INFO x NCCL_ALGO set by environment to Ring",
        "h:1:2 [0] NCCL INFO nccl_algo set by environment to Ring",
        "h:1:2 [0] NCCL INFO Channel 00 : 0 -> 1 via carrier pigeon",
        "h:1:2 [0] NCCL INFO Channel 00 : 0 -> 1 via pigeon/post",
        "h:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 99999999999 - Init COMPLETE",
        "h:1:2 [0] NCCL INFO comm 0x rank 0 nranks 2 - Init COMPLETE",
        "h:1:2 [0] NCCL INFO " + "comm 0xa rank " * 500,
        "NCCL_ALGO set by environment to Ring",
        "h:1:2 [0] NCCLINFO NCCL_ALGO set by environment to Ring",
    ],
)
def test_look_alikes_are_not_believed(line: str) -> None:
    readback = parse([line])
    empty = NcclReadback(
        processes=readback.processes,
        messages=readback.messages,
        skipped_bytes=readback.skipped_bytes,
    )
    assert readback == empty


def test_nuls_and_binary_between_lines() -> None:
    lines = ["\0" * 5000, "\x7fELF\x02\udc80\ufffd", "\0\0" + TAKEN, TAKEN.replace(" ", " \0")]
    readback = parse(lines)
    assert readback.environment == {"NCCL_BUFFSIZE": "8388608"}
    (warning,) = parse(["h:1:2 [0] NCCL WARN a\udc80\0\x1bb" + "c" * 5000]).warnings
    assert warning == "a   b" + "c" * 395
