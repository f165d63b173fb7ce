"""What NCCL_ALGO and NCCL_PROTO mean in each version: known cases of writer and parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import FieldError
from autotune.space.nccl import (
    Algorithm,
    Collective,
    Fabric,
    NcclVersion,
    Network,
    Protocol,
    nccl_algo,
    nccl_proto,
    parse,
    usable,
)

AR, AG, RS, BC, RD = Collective
ALL = frozenset(Algorithm)
EVERYTHING = "ring,tree,collnetdirect,collnetchain,nvls,nvlstree,pat"
PCIE_NODE = Fabric(compute_capability=86, nodes=1, ranks_per_node=8)
A100_NODE = Fabric(compute_capability=80, nodes=1, ranks_per_node=8, nvswitch=True)
A100_EFA = Fabric(
    compute_capability=80, nodes=2, ranks_per_node=8, nvswitch=True, network=Network.EFA
)


def version(text: str) -> NcclVersion:
    return NcclVersion.parse(text)


def names(text: str) -> frozenset[Algorithm]:
    return ALL if text == "all" else frozenset(Algorithm(word) for word in text.split())


def test_each_function_gets_its_own_list_after_one_for_the_rest() -> None:
    wanted = {RS: Algorithm.NVLS_TREE, AR: Algorithm.TREE}
    expected = f"{EVERYTHING};allreduce:tree;reducescatter:nvlstree"
    assert nccl_algo(version("2.24.3"), wanted) == expected
    assert nccl_algo(version("2.31.2"), wanted) == expected


def test_before_2_24_there_is_one_list() -> None:
    assert nccl_algo(version("2.23.4"), {AR: Algorithm.TREE, RS: Algorithm.TREE}) == "tree"
    assert nccl_proto(version("2.23.4"), {AG: Protocol.LL, RS: Protocol.LL}) == "ll"
    with pytest.raises(FieldError, match=r"ring,tree.*2\.24 and later can"):
        nccl_algo(version("2.23.4"), {AR: Algorithm.TREE, RS: Algorithm.RING})


def test_protocols_are_written_for_their_functions_only() -> None:
    wanted = {AG: Protocol.LL128, AR: Protocol.SIMPLE}
    assert nccl_proto(version("2.27.5"), wanted) == "allreduce:simple;allgather:ll128"


@pytest.mark.parametrize(
    ("nccl", "algo", "all_reduce", "all_gather"),
    [
        ("2.6.4", "Tree", "tree", "tree"),
        ("2.7.8", "Tree", "tree", "tree ring collnet_chain"),
        ("2.16.5", "Tree", "tree", "tree ring collnet_direct collnet_chain"),
        ("2.17.1", "Tree", "tree", "tree ring"),
        ("2.18.6", "NVLS", "nvls", "nvls ring"),
        ("2.19.3", "Tree", "tree", "tree"),
        ("2.23.4", "^Tree", "ring collnet_direct collnet_chain nvls nvls_tree pat",
         "ring collnet_direct collnet_chain nvls nvls_tree pat"),
        ("2.23.4", "TREE,,ring,bogus", "tree ring", "tree ring"),
        ("2.23.4", "", "", ""),
        ("2.23.4", "bogus", "", ""),
        ("2.22.3", "PAT,Ring", "ring", "ring"),
        ("2.10.3", "CollNet", "collnet_chain", "tree ring collnet_chain"),
        ("2.24.3", "Tree", "tree", "tree"),
        ("2.24.3", "", "all", "all"),
        ("2.24.3", "allreduce:Tree", "tree", "all"),
        ("2.30.7", "allreduce:tree", "tree", "all"),
        ("2.31.2", "allreduce:tree", "tree", "all"),
        ("2.31.2", "", "all", "all"),
        ("2.27.5", "ring;AllReduce:tree,ring", "tree ring", "ring"),
        ("2.27.5", "^nvls;allgather:^ring", "tree ring collnet_direct collnet_chain nvls_tree pat",
         "tree collnet_direct collnet_chain nvls nvls_tree pat"),
        ("2.27.5", "allreduce:tree;allreduce:ring", "ring", "all"),
        ("2.27.5", "allreduce:tree:ring", "tree", "all"),
        ("2.27.5", ":tree", "tree", "tree"),
        ("2.27.5", "tree;;", "tree", "tree"),
        ("2.27.5", f"{EVERYTHING};allreduce:tree", "tree", "all"),
        ("2.31.2", f"{EVERYTHING};allreduce:tree", "tree", "all"),
        ("2.31.2", "^;allreduce:tree", "tree", "all"),
    ],
)  # fmt: skip
def test_algorithms_are_read_as_the_version_does(
    nccl: str, algo: str, all_reduce: str, all_gather: str
) -> None:
    parsed = parse(version(nccl), {"NCCL_ALGO": algo, "PATH": "/bin"})
    assert not parsed.error
    assert parsed.collectives[AR].algorithms == names(all_reduce)
    assert parsed.collectives[AG].algorithms == names(all_gather)


@pytest.mark.parametrize(
    ("algo", "message"),
    [
        ("tree,rings", 'Unrecognized element token "rings" when parsing "tree,rings"'),
        ("sum:tree", 'Unrecognized prefix token "sum" when parsing "sum:tree"'),
        ("allreduce:tree;ring",
         'All entries except the first must have a prefix: "allreduce:tree;ring"'),
        (";tree", 'All entries except the first must have a prefix: ";tree"'),
        ("nvls_tree", 'Unrecognized element token "nvls_tree" when parsing "nvls_tree"'),
        ("tree, ring", 'Unrecognized element token " ring" when parsing "tree, ring"'),
        ("allreduce:LL", 'Unrecognized element token "LL" when parsing "allreduce:LL"'),
        (":", 'NCCL crashes on an entry without a list: ":"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nccl", ["2.24.3", "2.30.7", "2.31.2"])
def test_mistakes_get_nccls_own_message(nccl: str, algo: str, message: str) -> None:
    parsed = parse(version(nccl), {"NCCL_ALGO": algo})
    assert (parsed.error, parsed.collectives) == (message, {})


@pytest.mark.parametrize(
    ("nccl", "proto", "all_reduce", "broadcast", "unchecked"),
    [
        ("2.27.5", None, "ll ll128 simple", "ll ll128 simple", False),
        ("2.27.5", "LL", "ll", "ll", False),
        ("2.27.5", "^LL", "ll128 simple", "ll128 simple", True),
        ("2.27.5", "allreduce:LL128", "ll128", "ll ll128 simple", True),
        ("2.27.5", "broadcast:LL128", "ll ll128 simple", "ll128", False),
        ("2.31.2", "allreduce:LL128", "ll128", "ll ll128 simple", False),
        ("2.18.3", "LL128", "ll128", "ll128", True),
        ("2.18.3", "", "", "", False),
    ],
)
def test_protocols_are_read_as_the_version_does(
    nccl: str, proto: str | None, all_reduce: str, broadcast: str, unchecked: bool
) -> None:
    parsed = parse(version(nccl), {} if proto is None else {"NCCL_PROTO": proto})
    assert {p.value for p in parsed.collectives[AR].protocols} == set(all_reduce.split())
    assert {p.value for p in parsed.collectives[BC].protocols} == set(broadcast.split())
    assert parsed.collectives[AR].ll128_unchecked == unchecked


def test_from_2_31_a_protocol_for_all_starves_what_the_algorithm_list_left_out() -> None:
    environment = {"NCCL_ALGO": "allreduce:tree", "NCCL_PROTO": "Simple"}
    old, new = version("2.30.7"), version("2.31.2")
    for collective in (AG, RS, BC, RD):
        assert usable(old, parse(old, environment), collective, A100_NODE)
        assert not usable(new, parse(new, environment), collective, A100_NODE)
    environment["NCCL_ALGO"] = f"ring,tree;{environment['NCCL_ALGO']}"
    assert all(usable(new, parse(new, environment), c, A100_NODE) for c in Collective)


@pytest.mark.parametrize(
    ("nccl", "starved"),
    [
        ("2.6.4", True), ("2.7.8", False), ("2.16.5", False), ("2.18.6", False), ("2.19.3", False),
        ("2.23.4", False), ("2.24.3", True), ("2.27.5", True), ("2.30.7", True), ("2.31.2", True),
    ],
)  # fmt: skip
def test_tree_for_everything_fails_in_some_versions(nccl: str, starved: bool) -> None:
    parsed = parse(version(nccl), {"NCCL_ALGO": "Tree"})
    assert usable(version(nccl), parsed, AR, A100_NODE)
    for collective in (AG, RS, BC, RD):
        assert (not usable(version(nccl), parsed, collective, A100_NODE)) == starved


def test_the_ring_to_fall_back_on_ignored_protocols_until_2_21() -> None:
    environment = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "Simple"}
    for text, count in (("2.21.5", 3), ("2.22.3", 1)):
        pairs = usable(version(text), parse(version(text), environment), BC, PCIE_NODE)
        assert len(pairs) == count
        assert {algorithm for algorithm, _ in pairs} == {Algorithm.RING}


def test_ll128_is_left_to_nccl_unless_it_is_named() -> None:
    nccl, pair = version("2.27.5"), (Algorithm.RING, Protocol.LL128)
    assert pair in usable(nccl, parse(nccl, {}), AR, A100_NODE)
    assert pair not in usable(nccl, parse(nccl, {}), AR, PCIE_NODE)
    assert pair not in usable(nccl, parse(nccl, {}), AR, A100_EFA)
    assert pair in usable(nccl, parse(nccl, {"NCCL_PROTO": "LL128"}), AR, PCIE_NODE)
    new = version("2.31.2")
    assert not usable(new, parse(new, {"NCCL_PROTO": "LL128"}), AR, PCIE_NODE)


def test_a_refused_value_leaves_nothing() -> None:
    nccl = version("2.27.5")
    assert not usable(nccl, parse(nccl, {"NCCL_ALGO": "trees"}), AR, A100_NODE)


PIECES = ["tree", "RING", "nvls", "pat", "bogus", "allreduce", "AllGather", ";", ":", ",", "^", " "]


@given(
    st.integers(5, 33),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.one_of(
        st.none(), st.lists(st.sampled_from(["ll", "LL128", ";", ":", "reduce"])).map("".join)
    ),
)
def test_any_text_is_either_read_or_refused(minor: int, algo: str, proto: str | None) -> None:
    environment = {"NCCL_ALGO": algo} | ({} if proto is None else {"NCCL_PROTO": proto})
    parsed = parse(NcclVersion(2, minor), environment)
    assert bool(parsed.error) != (set(parsed.collectives) == set(Collective))
    if minor < 24:
        assert not parsed.error


@given(
    st.integers(24, 33), st.dictionaries(st.sampled_from(Collective), st.sampled_from(Algorithm))
)
def test_what_is_written_for_a_function_is_read_for_it_alone(
    minor: int, wanted: dict[Collective, Algorithm]
) -> None:
    nccl = NcclVersion(2, minor)
    parsed = parse(nccl, {"NCCL_ALGO": nccl_algo(nccl, wanted)})
    for collective in Collective:
        expected = {wanted[collective]} if collective in wanted else ALL
        assert parsed.collectives[collective].algorithms == expected


@given(st.integers(24, 33), st.dictionaries(st.sampled_from(Collective), st.sampled_from(Protocol)))
def test_protocols_written_for_a_function_are_read_for_it_alone(
    minor: int, wanted: dict[Collective, Protocol]
) -> None:
    nccl = NcclVersion(2, minor)
    parsed = parse(nccl, {"NCCL_PROTO": nccl_proto(nccl, wanted)})
    for collective in Collective:
        expected = {wanted[collective]} if collective in wanted else set(Protocol)
        assert parsed.collectives[collective].protocols == expected
