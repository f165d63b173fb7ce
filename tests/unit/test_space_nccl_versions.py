"""Versions, names, values, channels and advice: tables of known cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import FieldError
from autotune.space.nccl import (
    VARIABLES,
    Kind,
    NcclVersion,
    Network,
    Surroundings,
    channel_limit,
    channel_variables,
    channels_in,
    harmful,
    placebo,
    problem,
    reads,
    unread,
)
from autotune.space.nccl.channels import parse_integer
from autotune.space.nccl.names import GONE, SINCE


def version(text: str) -> NcclVersion:
    return NcclVersion.parse(text)


@pytest.mark.parametrize(
    "value",
    ["2.27.5", "2.27.5+cuda12.9", "v2.27.5-1", " 2.27.5 ", (2, 27, 5), [2, 27, 5], 22705, "22705"],
)
def test_one_version_is_written_in_many_ways(value: object) -> None:
    assert NcclVersion.parse(value) == NcclVersion(2, 27, 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2705, (2, 7, 5)), (2408, (2, 4, 8)), (21003, (2, 10, 3)), (20905, (2, 9, 5))],
)
def test_integer_codes_have_two_forms(value: int, expected: tuple[int, int, int]) -> None:
    assert NcclVersion.parse(value) == NcclVersion(*expected)


def test_a_patch_may_be_missing() -> None:
    assert NcclVersion.parse("2.31") == NcclVersion.parse((2, 31)) == NcclVersion(2, 31, 0)


@pytest.mark.parametrize(
    "value", ["", "two", "2", "2.x", None, True, 0, -1, (2,), (2, "27"), (2, -1), 2.27, "27.5.1x"]
)
def test_what_is_no_version_is_refused_with_the_value(value: object) -> None:
    with pytest.raises(FieldError, match="is not an NCCL version"):
        NcclVersion.parse(value)


def test_versions_order_as_numbers_and_print_as_written() -> None:
    texts = ["2.4.8", "2.5.6", "2.9.9", "2.10.3", "2.27.3", "2.27.5", "2.31.2", "3.0.0"]
    assert [str(v) for v in sorted(map(version, reversed(texts)))] == texts


@pytest.mark.parametrize(
    ("name", "first", "before"),
    [
        ("NCCL_MIN_CTAS", "2.17.1", "2.16.5"),
        ("NCCL_MAX_CTAS", "2.17.1", "2.16.5"),
        ("NCCL_NVLS_ENABLE", "2.17.1", "2.16.5"),
        ("NCCL_TUNER_PLUGIN", "2.19.1", "2.18.6"),
        ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "2.20.3", "2.19.4"),
        ("NCCL_NVLS_CHUNKSIZE", "2.21.5", "2.20.5"),
        ("NCCL_RUNTIME_CONNECT", "2.22.3", "2.21.5"),
        ("NCCL_PAT_ENABLE", "2.23.4", "2.22.3"),
        ("NCCL_CTA_POLICY", "2.27.3", "2.26.6"),
        ("NCCL_NETDEVS_POLICY", "2.28.3", "2.27.7"),
        ("NCCL_NO_CACHE", "2.29.7", "2.28.9"),
        ("NCCL_ALGO", "2.5.6", "2.4.8"),
        ("NCCL_PXN_DISABLE", "2.12.7", "2.11.4"),
    ],
)
def test_a_variable_is_read_from_its_first_version_on(name: str, first: str, before: str) -> None:
    assert reads(version(first), name)
    assert reads(version("2.31.2"), name)
    assert not reads(version(before), name)


def test_a_variable_that_went_away_is_read_no_more() -> None:
    assert reads(version("2.21.5"), "NCCL_WORK_FIFO_DEPTH")
    assert not reads(version("2.22.3"), "NCCL_WORK_FIFO_DEPTH")


@pytest.mark.parametrize(
    "name", ["NCCL_NCHANNELS", "NCCL_THREADS", "NCCL_NVLSTREE_ENABLE", "OFI_NCCL_PROTOCOL", ""]
)
def test_no_version_reads_a_placebo(name: str) -> None:
    assert not any(reads(NcclVersion(2, minor), name) for minor in range(4, 40))


def test_every_described_variable_is_one_that_is_read() -> None:
    assert set(VARIABLES) <= set(SINCE)
    assert all(GONE[name] > SINCE[name] for name in GONE)
    assert all(v.words for v in VARIABLES.values() if v.kind is Kind.WORDS)


@pytest.mark.parametrize(
    ("nccl", "name", "value", "expected"),
    [
        ("2.27.5", "NCCL_NTHREADS", "512", ""),
        ("2.27.5", "NCCL_NTHREADS", "0x100", ""),
        ("2.27.5", "NCCL_NTHREADS", "100", "multiple of 32"),
        ("2.27.5", "NCCL_NTHREADS", "32", "outside 64 to 512"),
        ("2.27.5", "NCCL_NTHREADS", "1024", "outside 64 to 512"),
        ("2.27.5", "NCCL_NTHREADS", "many", "no whole number"),
        ("2.4.8", "NCCL_MAX_P2P_NCHANNELS", "17", "outside 1 to 16"),
        ("2.24.3", "NCCL_MAX_CTAS", "33", "outside 1 to 32"),
        ("2.25.1", "NCCL_MAX_CTAS", "33", ""),
        ("2.25.1", "NCCL_MAX_CTAS", "65", "outside 1 to 64"),
        ("2.16.5", "NCCL_MAX_CTAS", "8", "doesn't read"),
        ("2.27.5", "NCCL_P2P_LEVEL", "NVL", ""),
        ("2.27.5", "NCCL_P2P_LEVEL", "nvl", "is none of"),
        ("2.27.5", "NCCL_NET_GDR_LEVEL", "NVL", "is none of"),
        ("2.27.5", "NCCL_BUFFSIZE", "0", "outside 1 and more"),
        ("2.27.5", "NCCL_ALGO", "tree,rings", "Unrecognized element token"),
        ("2.23.4", "NCCL_ALGO", "tree,rings", ""),
        ("2.27.5", "NCCL_IB_HCA", "anything", ""),
        ("2.27.5", "NCCL_SOCKET_IFNAME", "en", ""),
        ("2.27.5", "NCCL_NCHANNELS", "8", "doesn't read"),
    ],
)
def test_values_are_judged_by_version(nccl: str, name: str, value: str, expected: str) -> None:
    found = problem(version(nccl), name, value)
    assert expected in found
    assert bool(expected) == bool(found)


@pytest.mark.parametrize(
    ("nccl", "limit", "names"),
    [
        ("2.4.8", 16, ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS")),
        ("2.5.6", 32, ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")),
        ("2.16.5", 32, ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")),
        ("2.17.1", 32, ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")),
        ("2.24.3", 32, ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")),
        ("2.25.1", 64, ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")),
        ("2.31.2", 64, ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")),
    ],
)
def test_channels_become_the_pair_that_the_version_reads(
    nccl: str, limit: int, names: tuple[str, str]
) -> None:
    nccl_version = version(nccl)
    assert channel_limit(nccl_version) == limit
    assert channel_variables(nccl_version, 8) == dict.fromkeys(names, "8")
    assert all(reads(nccl_version, name) for name in names)
    for count in (0, limit + 1):
        with pytest.raises(FieldError, match=f"outside 1 to {limit}"):
            channel_variables(nccl_version, count)


@given(st.integers(5, 33), st.data())
def test_channels_read_back_as_written(minor: int, data: st.DataObject) -> None:
    nccl = NcclVersion(2, minor)
    count = data.draw(st.integers(1, channel_limit(nccl)))
    assert channels_in(nccl, channel_variables(nccl, count)).exact == count


@pytest.mark.parametrize(
    ("nccl", "environment", "expected"),
    [
        ("2.27.5", {}, (None, None)),
        ("2.27.5", {"NCCL_NCHANNELS": "8"}, (None, None)),
        ("2.27.5", {"NCCL_MIN_CTAS": "4", "NCCL_MAX_CTAS": "16"}, (4, 16)),
        ("2.27.5", {"NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "4"}, (4, 4)),
        ("2.27.5", {"NCCL_MIN_CTAS": "0", "NCCL_MAX_CTAS": "-3"}, (None, None)),
        ("2.27.5", {"NCCL_MAX_CTAS": "500"}, (None, 64)),
        ("2.24.3", {"NCCL_MAX_CTAS": "500"}, (None, 32)),
        ("2.27.5", {"NCCL_MIN_NCHANNELS": "16", "NCCL_MAX_NCHANNELS": "4"}, (16, 16)),
        ("2.27.5", {"NCCL_MAX_NCHANNELS": "8", "NCCL_MAX_CTAS": "16"}, (None, 8)),
        ("2.27.5", {"NCCL_MIN_NCHANNELS": "8", "NCCL_MIN_CTAS": "16"}, (16, None)),
        ("2.16.5", {"NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16"}, (None, None)),
        ("2.16.5", {"NCCL_MAX_NCHANNELS": "0x10"}, (None, 16)),
        ("2.16.5", {"NCCL_MAX_NRINGS": "4"}, (None, 4)),
        ("2.27.5", {"NCCL_MAX_CTAS": "8 channels"}, (None, None)),
    ],
)
def test_channels_are_read_back_as_nccl_does(
    nccl: str, environment: dict[str, str], expected: tuple[int | None, int | None]
) -> None:
    bounds = channels_in(version(nccl), environment)
    assert (bounds.minimum, bounds.maximum) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16), ("0x10", 16), ("020", 16), (" 7", 7), ("-4", -4), ("0", 0), ("00", 0),
        ("", None), ("08", None), ("7 ", None), ("1e3", None), ("4M", None), ("0x", None),
    ],
)  # fmt: skip
def test_integers_are_read_as_strtoll_does(text: str, value: int | None) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("NCCL_NCHANNELS", "nccl_channels"),
        ("NCCL_THREADS", "NCCL_NTHREADS"),
        ("NCCL_MIN_CHANNELS", "NCCL_MIN_NCHANNELS"),
        ("NCCL_BUFFERSIZE", "NCCL_BUFFSIZE"),
        ("NCCL_BUFF_SIZE", "NCCL_BUFFSIZE"),
        ("NCCL_SOCKET_NTHREAD", "NCCL_SOCKET_NTHREADS"),
        ("NCCL_NVLSTREE_ENABLE", ""),
        ("NCCL_FOO_BAR_BAZ_QUX", ""),
    ],
)
def test_a_placebo_is_explained(name: str, replacement: str) -> None:
    found = placebo(name)
    assert found is not None
    assert (found.knob or found.variable) == replacement
    assert found.why
    assert found.instead.endswith((".", "?"))


@pytest.mark.parametrize("name", [*SINCE, "NCCL_ASYNC_ERROR_HANDLING", "PATH", "FI_PROVIDER"])
def test_what_something_reads_is_no_placebo(name: str) -> None:
    assert placebo(name) is None


def test_a_name_of_another_version_is_explained_by_version() -> None:
    early, late = (
        unread(version("2.16.5"), "NCCL_MIN_CTAS"),
        unread(version("2.27.5"), "NCCL_MNNVL"),
    )
    assert early is not None
    assert early.why == "NCCL reads it from 2.17.0 on, this is 2.16.5"
    assert late is not None
    assert late.why == "NCCL reads it before 2.21.0 only, this is 2.27.5"
    assert unread(version("2.27.5"), "NCCL_MIN_CTAS") is None
    assert unread(version("2.27.5"), "NCCL_NCHANNELS") == placebo("NCCL_NCHANNELS")


EFA = Surroundings(network=Network.EFA, plugin=(1, 17, 0), version=NcclVersion(2, 27, 5))


@pytest.mark.parametrize(
    ("name", "value", "around", "is_harmful"),
    [
        ("NCCL_SOCKET_IFNAME", "efa", None, True),
        ("NCCL_SOCKET_IFNAME", "=efa0", None, True),
        ("NCCL_SOCKET_IFNAME", "^efa", None, False),
        ("NCCL_SOCKET_IFNAME", "en,eth", None, False),
        ("RDMAV_FORK_SAFE", "1", None, True),
        ("FI_EFA_USE_DEVICE_RDMA", "1", EFA, True),
        ("FI_EFA_USE_DEVICE_RDMA", "1", Surroundings(plugin=(1, 6, 0)), False),
        ("FI_EFA_USE_DEVICE_RDMA", "1", None, True),
        ("FI_PROVIDER", "efa", None, True),
        ("FI_PROVIDER", "tcp", None, False),
        ("NCCL_PROTO", "LL128", EFA, True),
        ("NCCL_PROTO", "allreduce:LL128", EFA, True),
        ("NCCL_PROTO", "LL128", Surroundings(version=NcclVersion(2, 31)), False),
        ("NCCL_PROTO", "simple", EFA, True),
        ("NCCL_PROTO", "simple", None, False),
        ("NCCL_PROTO", "simple", Surroundings(network=Network.EFA, plugin=(1, 5)), False),
        ("NCCL_SOCKET_NTHREADS", "4", EFA, True),
        ("NCCL_SOCKET_NTHREADS", "4", Surroundings(network=Network.SOCKET), False),
        ("NCCL_BUFFSIZE", "16777216", None, True),
        ("NCCL_BUFFSIZE", "8388608", None, False),
        ("NCCL_NTHREADS", "64", None, True),
        ("NCCL_NTHREADS", "512", None, False),
        ("NCCL_P2P_DISABLE", "1", None, True),
        ("NCCL_P2P_DISABLE", "0", None, False),
        ("NCCL_IB_HCA", "mlx5", None, False),
    ],
)
def test_harmful_advice_is_known(
    name: str, value: str, around: Surroundings | None, is_harmful: bool
) -> None:
    found = harmful(name, value, around)
    assert (found is not None) == is_harmful
    if found:
        assert found.why
        assert found.instead.endswith(".")
