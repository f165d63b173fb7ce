"""Ranks put together, and what they disagree on."""

from autotune.trainers.nccl_log import NcclReadback, Uptake, effective, merge, parse


def info(*texts: str) -> NcclReadback:
    return parse(f"host:1:2 [0] NCCL INFO {text}" for text in texts)


def rank(number: int, *texts: str, ranks: int = 4) -> NcclReadback:
    return info(f"comm 0xa rank {number} nRanks {ranks} nNodes 1 ", *texts)


def test_ranks_that_agree() -> None:
    taken = "NCCL_BUFFSIZE set by environment to 1."
    merged = merge([rank(i, taken, "Using network IB") for i in range(4)])
    assert merged.differences == ()
    assert merged.readback.processes == 4
    assert merged.readback.environment == {"NCCL_BUFFSIZE": "1"}
    assert [c.rank for c in merged.readback.communicators] == [0, 1, 2, 3]


def test_ranks_that_do_not_agree_are_named() -> None:
    one, two = (f"NCCL_BUFFSIZE set by environment to {n}." for n in (1, 2))
    merged = merge([rank(0, one), rank(1, one), rank(3, two), rank(2)])
    (difference,) = merged.differences
    assert difference.what == "NCCL_BUFFSIZE"
    assert difference.values == {
        "1": ("rank 0", "rank 1"),
        "2": ("rank 3",),
        "not seen": ("rank 2",),
    }
    assert merged.readback.environment == {"NCCL_BUFFSIZE": "1"}
    assert str(difference) == (
        "NCCL_BUFFSIZE: '1' on rank 0, rank 1, '2' on rank 3, 'not seen' on rank 2"
    )


def test_one_node_on_sockets_is_a_difference_and_a_fall_back() -> None:
    good = rank(0, "NET/OFI Initializing aws-ofi-nccl 1.17.0", "Using network Libfabric")
    bad = rank(1, "NET/OFI No eligible providers were found", "Using network Socket")
    merged = merge([good, bad])
    assert [d.what for d in merged.differences] == ["network"]
    assert merged.readback.fallback == "NET/OFI No eligible providers were found"


def test_what_only_one_rank_logs_is_no_difference() -> None:
    merged = merge([rank(0, "NCCL version 2.21.5+cuda12.4"), rank(1)])
    assert merged.differences == ()
    assert merged.readback.nccl_version == "2.21.5"


def test_a_log_that_lacks_a_part_makes_no_difference() -> None:
    taken = "NCCL_BUFFSIZE set by environment to 1."
    cut = parse(["h:1:2 [0] NCCL INFO NCCL_BUh:1:2 [0] NCCL INFO Using network IB"])
    assert merge([rank(0, taken), cut]).differences == ()


def test_a_request_over_all_ranks() -> None:
    """Rank 0 alone shows the algorithm."""
    taken = "NCCL_ALGO set by environment to ring"
    chosen = "AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}"
    merged = merge([rank(0, taken, chosen), rank(1, taken)])
    result = effective(merged.readback, {"NCCL_ALGO": "ring"})["NCCL_ALGO"]
    assert (result.uptake, result.confirmed) == (Uptake.TAKEN, True)
