"""Communicators with their channels and links, and what NCCL chose for their collectives."""

from pathlib import Path

import pytest

from autotune.trainers.nccl_log import Choice, Communicator, NcclReadback, parse, read_log

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nccl"


def fixture(name: str) -> NcclReadback:
    return read_log(FIXTURES / f"{name}.log")


def info(*texts: str) -> NcclReadback:
    return parse(f"host:1:2 [0] NCCL INFO {text}" for text in texts)


def test_channels_of_2_10_belong_to_the_communicator_named_after_them() -> None:
    assert fixture("2.10").communicators == (
        Communicator(
            rank=0, ranks=2, complete=True, coll_channels=2, p2p_channels=2, p2p_channels_per_peer=2
        ),
    )
    assert fixture("2.10").links[1].transport == "SHM/direct"
    assert fixture("2.10").patterns[0].bandwidth_intra == 21.0


def test_channels_of_2_18_have_nvls() -> None:
    communicator = fixture("2.18").communicators[0]
    assert (communicator.rank, communicator.ranks) == (3, 8)
    assert (communicator.coll_channels, communicator.nvls_channels) == (2, 0)
    assert communicator.identity == "0x9d2f7a00c1"


def test_communicators_of_2_29() -> None:
    readback = fixture("2.29")
    split, world = readback.communicators
    assert readback.world == world
    assert (split.split, split.ranks, split.coll_channels) == (True, 4, 12)
    assert (world.split, world.ranks, world.nodes, world.local_ranks) == (False, 8, 1, 8)
    assert (
        world.channels == "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels"
    )
    assert readback.nvls is True
    assert readback.notes == (
        "NCCL_MIN_CTAS 0 is too low, leaving it set at 1",
        "Comm config maxCTAs reset to NCCL_MAX_CTAS=16",
    )
    assert readback.warnings == ("Cuda failure 'named symbol not found'",)


@pytest.mark.parametrize(
    "line",
    [
        "ncclCommSplit comm 0xb rank 1 nranks 4 cudaDev 1 busId 2d000 - Init START",
        "[Rank 1] ncclCommSplit comm 0xb rank 1 nranks 4 parent 0xa color 1 key 1- Init START",
        "comm 0xb rank 1 nranks 4 cudaDev 1 parent 0xa color 1 key 1 - Init START",
    ],
)
def test_a_split_is_known_from_its_first_line(line: str) -> None:
    assert info(line).communicators == (Communicator(rank=1, ranks=4, split=True),)


@pytest.mark.parametrize(
    ("via", "transport"),
    [
        ("P2P/CUMEM/read", "P2P/CUMEM/read"),
        ("P2P/indirect/3[3]", "P2P/indirect"),
        ("NET/IB/0(3)/GDRDMA/Shared", "NET/IB"),
        ("COLLNET/SHARP/0/GDRDMA", "COLLNET/SHARP"),
    ],
)
def test_links(via: str, transport: str) -> None:
    (link,) = info(f"Channel 00/0 : 0[0] -> 1[1] [send] via {via}").links
    assert (link.transport, link.gpu_direct) == (transport, "GDRDMA" in via)


def test_an_address_used_twice_is_two_communicators() -> None:
    def life(ranks: int) -> list[str]:
        line = f"comm 0xa rank 0 nranks {ranks} cudaDev 0 busId 1"
        return [f"{line} - Init COMPLETE", f"{line} - Destroy COMPLETE"]

    assert [c.ranks for c in info(*life(4), *life(2)).communicators] == [4, 2]


def test_channels_without_a_communicator_are_kept() -> None:
    (only,) = info("4 coll channels, 4 p2p channels, 2 p2p channels per peer").communicators
    assert (only.ranks, only.coll_channels) == (None, 4)


@pytest.mark.parametrize(
    ("text", "collective", "size", "algorithm", "protocol", "channels"),
    [
        ("4096 Bytes -> Algo 0 proto 2 time 9.500000", "", 4096, "TREE", "SIMPLE", None),
        ("AllReduce: 8 Bytes -> Algo 5 proto 0 time 1.5", "AllReduce", 8, "NVLS_TREE", "LL", None),
        ("Reduce: 8 Bytes -> Algo 9 proto 1 time 1.5", "Reduce", 8, "9", "LL128", None),
        (
            "AllGather: 64 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..7}",
            "AllGather",
            64,
            "RING",
            "LL128",
            8,
        ),
    ],
)
def test_choices(
    text: str, collective: str, size: int, algorithm: str, protocol: str, channels: int | None
) -> None:
    expected = Choice(
        collective=collective,
        size_bytes=size,
        algorithm=algorithm,
        protocol=protocol,
        channels=channels,
        count=2,
    )
    assert info(text, text).choices == (expected,)


def test_choices_of_2_31() -> None:
    general, symmetric = fixture("2.31").choices
    assert (general.collective, general.size_bytes) == ("AllReduce", 33554432)
    assert (general.algorithm, general.protocol, general.channels) == ("NVLS", "SIMPLE", 24)
    assert (symmetric.collective, symmetric.kernel) == ("AllGather", "AllGather_LLMC")
    assert (symmetric.algorithm, symmetric.protocol) == ("", "")


def test_a_choice_of_2_31_is_joined_with_the_input_of_its_own_thread() -> None:
    best = "Best tuning { .algo = RING, .proto = LL, .symKernelId = Count, nChannels = 2, }"
    lines = [
        "h:1:7 [0] NCCL INFO Input: { .func = AllReduce, .nBytes = 10, }",
        "h:1:8 [0] NCCL INFO Input: { .func = Reduce, .nBytes = 20, }",
        f"h:1:7 [0] NCCL INFO {best}",
        f"h:1:9 [0] NCCL INFO {best}",
    ]
    chosen = [(c.collective, c.size_bytes) for c in parse(lines).choices]
    assert chosen == [("AllReduce", 10), ("", None)]


def test_matrix() -> None:
    rows = {row.collective: row for row in fixture("2.27-efa").enabled}
    assert list(rows) == ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"]
    assert rows["AllReduce"].algorithms == ("Tree",)
    assert rows["AllGather"].algorithms == ("Tree", "Ring")
    assert rows["AllGather"].protocols == ("Simple",)


def test_matrix_of_2_31_has_a_third_block() -> None:
    rows = {row.collective: row for row in fixture("2.31").enabled}
    assert rows["AllReduce"].algorithms == ("NVLS",)
    assert rows["AllReduce"].protocols == ("LL", "LL128", "Simple")
    assert rows["Broadcast"].algorithms == ()
