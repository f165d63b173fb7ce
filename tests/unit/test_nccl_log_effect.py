"""What became of a request, and what ranks disagree on."""

from pathlib import Path

import pytest

from autotune.trainers.nccl_log import (
    Effect,
    NcclReadback,
    Uptake,
    effective,
    parse,
    read_log,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nccl"


def fixture(name: str) -> NcclReadback:
    return read_log(FIXTURES / f"{name}.log")


def info(*texts: str) -> NcclReadback:
    return parse(f"host:1:2 [0] NCCL INFO {text}" for text in texts)


def effect(readback: NcclReadback, name: str, value: str) -> Effect:
    return effective(readback, {name: value})[name]


@pytest.mark.parametrize("name", ["NCCL_NCHANNELS", "NCCL_THREADS"])
def test_names_that_no_nccl_reads_are_not_seen(name: str) -> None:
    result = effect(fixture("2.27-efa"), name, "8")
    assert (result.uptake, result.confirmed, result.evidence) == (Uptake.NOT_SEEN, True, "")


def test_not_seen_in_a_log_that_lacks_a_part_proves_nothing() -> None:
    assert not effect(NcclReadback(), "NCCL_BUFFSIZE", "1").confirmed
    torn = parse(["h:1:2 [0] NCCL INFO NCCL_BUh:1:3 [0] NCCL INFO Using network IB"])
    assert not effect(torn, "NCCL_BUFFSIZE", "1").confirmed


def test_only_nccl_variables_are_judged() -> None:
    requested = {"FI_PROVIDER": "efa", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "x"}
    assert effective(fixture("2.27-efa"), requested) == {}


@pytest.mark.parametrize(
    ("name", "value", "evidence"),
    [
        ("NCCL_BUFFSIZE", "8388608", "NCCL_BUFFSIZE set by environment to 8388608"),
        ("NCCL_BUFFSIZE", "0x800000", "NCCL_BUFFSIZE set by environment to 8388608"),
        ("NCCL_BUFFSIZE", "040000000", "NCCL_BUFFSIZE set by environment to 8388608"),
        (
            "NCCL_MAX_CTAS",
            "8",
            "8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels",
        ),
        (
            "NCCL_MIN_CTAS",
            "8",
            "8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels",
        ),
        ("NCCL_ALGO", "ring,tree;allreduce:tree", "AllReduce of 26214400 bytes: TREE"),
        ("NCCL_PROTO", "simple", "AllReduce of 26214400 bytes: SIMPLE"),
    ],
)
def test_taken(name: str, value: str, evidence: str) -> None:
    result = effect(fixture("2.27-efa"), name, value)
    assert (result.uptake, result.confirmed, result.evidence) == (Uptake.TAKEN, True, evidence)


def test_a_value_that_the_plugin_put_there_overrides() -> None:
    result = effect(fixture("2.27-efa"), "NCCL_PROTO", "LL128")
    assert result.uptake is Uptake.OVERRIDDEN
    assert result.evidence == "NCCL_PROTO set by environment to simple (added by a network plugin)"


def test_refused() -> None:
    result = effect(fixture("2.18"), "NCCL_BUFFSIZE", "4M")
    assert result.uptake is Uptake.REFUSED
    assert result.evidence == "Invalid value 4M for NCCL_BUFFSIZE, using default -2."
    assert effect(fixture("2.23"), "NCCL_NTHREADS", "100").uptake is Uptake.REFUSED
    assert effect(fixture("2.29"), "NCCL_MIN_CTAS", "0").uptake is Uptake.REFUSED


CHANNELS = "{} coll channels, 0 nvls channels, 8 p2p channels, 1 p2p channels per peer"


@pytest.mark.parametrize(
    ("name", "value", "channels", "uptake"),
    [
        ("NCCL_MAX_NCHANNELS", "4", 4, Uptake.TAKEN),
        ("NCCL_MAX_NCHANNELS", "4", 2, Uptake.TAKEN),
        ("NCCL_MAX_NCHANNELS", "4", 8, Uptake.OVERRIDDEN),
        ("NCCL_MIN_NCHANNELS", "4", 8, Uptake.TAKEN),
        ("NCCL_MIN_NCHANNELS", "4", 2, Uptake.OVERRIDDEN),
        ("NCCL_MIN_CTAS", "4", 2, Uptake.OVERRIDDEN),
        ("NCCL_MAX_CTAS", "4", 8, Uptake.OVERRIDDEN),
    ],
)
def test_channels_are_judged_by_the_final_line(
    name: str, value: str, channels: int, uptake: Uptake
) -> None:
    readback = info(f"{name} set by environment to {value}.", CHANNELS.format(channels))
    result = effect(readback, name, value)
    assert result.uptake is uptake
    assert result.evidence.startswith(f"{channels} coll channels")


def test_channels_of_one_rank_or_a_split_prove_nothing_against_a_lower_limit() -> None:
    taken = "NCCL_MIN_CTAS set by environment to 16."
    alone = "comm 0xa rank 0 nranks 1 cudaDev 0 busId 1 - Init START"
    result = effect(info(taken, alone, CHANNELS.format(2)), "NCCL_MIN_CTAS", "16")
    assert (result.uptake, result.confirmed) == (Uptake.TAKEN, False)
    split = "ncclCommSplit comm 0xa rank 0 nranks 4 parent 0xb - Init START"
    result = effect(info(taken, split, CHANNELS.format(2)), "NCCL_MIN_CTAS", "16")
    assert result.uptake is Uptake.TAKEN


@pytest.mark.parametrize("name", ["NCCL_MAX_CTAS", "NCCL_ALGO", "NCCL_NVLS_NCHANNELS"])
def test_taken_without_a_sign_of_its_effect_is_not_confirmed(name: str) -> None:
    result = effect(info(f"{name} set by environment to 4."), name, "4")
    assert (result.uptake, result.confirmed) == (Uptake.TAKEN, False)
    assert result.evidence == f"{name} set by environment to 4"


def test_nvls_channels() -> None:
    taken = "NCCL_NVLS_NCHANNELS set by environment to 8."
    zero = effect(info(taken, CHANNELS.format(2)), "NCCL_NVLS_NCHANNELS", "8")
    assert (zero.uptake, zero.evidence) == (Uptake.OVERRIDDEN, "0 nvls channels")


def test_socket_knobs() -> None:
    readback = fixture("2.18")
    assert effect(readback, "NCCL_SOCKET_NTHREADS", "4").evidence == "4 socket threads"
    assert effect(readback, "NCCL_NSOCKS_PERTHREAD", "8").evidence == "8 sockets per thread"
    assert effect(readback, "NCCL_SOCKET_IFNAME", "ens").uptake is Uptake.TAKEN


@pytest.mark.parametrize(("value", "uptake"), [("2", Uptake.TAKEN), ("9", Uptake.OVERRIDDEN)])
def test_levels_by_their_old_numbers(value: str, uptake: Uptake) -> None:
    assert effect(fixture("2.18"), "NCCL_P2P_LEVEL", value).uptake is uptake


def test_an_algorithm_that_fell_back_to_ring_is_overridden() -> None:
    """2.19 to 2.23 fall back without a word where the algorithm doesn't exist."""
    result = effect(fixture("2.21"), "NCCL_ALGO", "Tree")
    assert result.uptake is Uptake.OVERRIDDEN
    assert result.evidence == "a collective of 4194304 bytes: RING"


def test_the_log_spells_algorithms_unlike_the_variable() -> None:
    readback = info(
        "NCCL_ALGO set by environment to NVLSTree",
        "AllReduce: 64 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..7}",
    )
    assert effect(readback, "NCCL_ALGO", "NVLSTree").uptake is Uptake.TAKEN


def test_an_excluded_protocol() -> None:
    assert effect(fixture("2.23"), "NCCL_PROTO", "^LL128").uptake is Uptake.TAKEN
    readback = info(
        "NCCL_PROTO set by environment to ^LL128",
        "AllReduce: 64 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..7}",
    )
    assert effect(readback, "NCCL_PROTO", "^LL128").uptake is Uptake.OVERRIDDEN


def test_collectives_that_a_request_leaves_out_are_free() -> None:
    result = effect(fixture("2.31"), "NCCL_ALGO", "allreduce:nvls")
    assert (result.uptake, result.confirmed) == (Uptake.TAKEN, True)


def test_a_symmetric_kernel_is_not_the_algorithm_asked_for() -> None:
    readback = info(
        "NCCL_ALGO set by environment to ring",
        "Input: { .func = AllReduce, .nBytes = 10, }",
        "Best tuning { .algo = Unknown, .proto = Unknown, .symKernelId = AllReduce_LL, }",
    )
    result = effect(readback, "NCCL_ALGO", "ring")
    assert (result.uptake, result.evidence) == (
        Uptake.OVERRIDDEN,
        "AllReduce of 10 bytes: AllReduce_LL",
    )


def matrix(row: str) -> NcclReadback:
    head = "host:1:2 [0] NCCL INFO "
    return parse(
        [
            f"{head}NCCL_ALGO set by environment to tree",
            f"{head}Enabled NCCL Func/Proto/Algo Matrix:",
            "Function | LL LL128 Simple | Tree Ring",
            row,
        ]
    )


@pytest.mark.parametrize(
    ("row", "uptake", "evidence"),
    [
        ("AllReduce | 1 2 1 | 1 0", Uptake.TAKEN, "enabled for AllReduce: Tree"),
        ("AllReduce | 1 2 1 | 1 1", Uptake.OVERRIDDEN, "enabled for AllReduce: Tree, Ring"),
        ("AllReduce | 1 2 1 | 0 0", Uptake.OVERRIDDEN, "enabled for AllReduce: nothing"),
    ],
)
def test_the_matrix_is_evidence_where_nothing_was_launched(
    row: str, uptake: Uptake, evidence: str
) -> None:
    result = effect(matrix(row), "NCCL_ALGO", "tree")
    assert (result.uptake, result.confirmed, result.evidence) == (uptake, True, evidence)
