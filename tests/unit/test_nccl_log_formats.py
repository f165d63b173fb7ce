"""Every form of line that NCCL 2.10 to 2.31 is known to write."""

from pathlib import Path

import pytest

from autotune.trainers.nccl_log import Link, NcclReadback, parse, read_log

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nccl"


def fixture(name: str) -> NcclReadback:
    return read_log(FIXTURES / f"{name}.log")


def info(*texts: str) -> NcclReadback:
    return parse(f"host:1:2 [0] NCCL INFO {text}" for text in texts)


@pytest.mark.parametrize(
    ("name", "nccl", "cuda", "network"),
    [
        ("2.10", "2.10.3", "11.3", "Socket"),
        ("2.18", "2.18.5", "11.8", "Socket"),
        ("2.21", "2.21.5", "12.4", "Socket"),
        ("2.23", "2.23.4", "12.6", "IB"),
        ("2.27-efa", "2.27.5", "12.9", "Libfabric"),
        ("2.29", "2.29.7", "13.0", "Socket"),
        ("2.31", "2.31.2", "13.1", "IB"),
    ],
)
def test_version_and_network_of_every_family(name: str, nccl: str, cuda: str, network: str) -> None:
    readback = fixture(name)
    assert (readback.nccl_version, readback.cuda_version) == (nccl, cuda)
    assert readback.network == network
    assert readback.processes == 1
    assert not readback.truncated
    assert readback.communicators[0].complete


def test_a_version_without_its_cuda() -> None:
    assert info("NCCL version 2.19.3").nccl_version == "2.19.3"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("NCCL_BUFFSIZE set by environment to 8388608.", "NCCL_BUFFSIZE", "8388608"),
        ("NCCL_CROSS_NIC set by environment to -1.", "NCCL_CROSS_NIC", "-1"),
        (
            "NCCL_ALGO set by environment to ring;allreduce:^tree",
            "NCCL_ALGO",
            "ring;allreduce:^tree",
        ),
        ("NCCL_SOCKET_IFNAME set by environment to eth0.", "NCCL_SOCKET_IFNAME", "eth0."),
        ("NCCL_SOCKET_IFNAME set to =ens5", "NCCL_SOCKET_IFNAME", "=ens5"),
        ("NCCL_ALGO set by environment to ", "NCCL_ALGO", ""),
    ],
)
def test_variables_taken(text: str, name: str, value: str) -> None:
    assert info(text).environment == {name: value}


def test_the_last_value_taken_counts() -> None:
    readback = info("NCCL_ALGO set by environment to Tree", "NCCL_ALGO set by environment to Ring")
    assert readback.environment == {"NCCL_ALGO": "Ring"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Invalid value 4M for NCCL_BUFFSIZE, using default -2.", "NCCL_BUFFSIZE"),
        ("Invalid NCCL_NTHREADS 100 (must be a multiple of 32)", "NCCL_NTHREADS"),
        ("NCCL_MAX_CTAS 0 is too low, leaving it set at 64", "NCCL_MAX_CTAS"),
        (
            "NET/Socket : NCCL_SOCKET_NTHREADS is greater than the maximum allowed, setting to 16",
            "NCCL_SOCKET_NTHREADS",
        ),
        (
            "NET/Socket : the total number of sockets is greater than the maximum allowed, "
            "setting NCCL_NSOCKS_PERTHREAD to 4",
            "NCCL_NSOCKS_PERTHREAD",
        ),
    ],
)
def test_variables_refused(text: str, name: str) -> None:
    assert info(text).refused == {name: text}


@pytest.mark.parametrize(
    "text",
    [
        "Error : no algorithm/protocol available for function AllGather with datatype ncclInt8. "
        "NCCL_ALGO was set to Tree.",
        "No algorithm/protocol available for function AllGather with datatype ncclInt8. "
        "NCCL_ALGO was set to Tree.",
        "No algorithm/protocol nor symKernelId available for function AllGather with datatype "
        "ncclInt8. NCCL_ALGO was set to Tree.",
        "Error : no algorithm/protocol available",
    ],
)
def test_an_algorithm_that_nothing_is_left_of(text: str) -> None:
    taken = "host:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Tree"
    readback = parse([taken, f"host:1:2 [0] enqueue.cc:1:2 NCCL WARN {text}"])
    assert readback.refused == {"NCCL_ALGO": text}
    assert readback.warnings == (text,)


def test_only_the_variable_that_an_error_names_is_refused() -> None:
    readback = info(
        "NCCL_PROTO set by environment to LL",
        "NCCL_ALGO set by environment to Tree",
        "No algorithm/protocol available for function Reduce with datatype ncclInt8. "
        "NCCL_ALGO was set to Tree.",
    )
    assert list(readback.refused) == ["NCCL_ALGO"]


def test_a_selection_that_does_not_parse_is_the_fault_of_the_variable_read_last() -> None:
    text = 'Unrecognized element token "rnig" when parsing "rnig"'
    proto, algo = (f"NCCL_{name} set by environment to rnig" for name in ("PROTO", "ALGO"))
    assert info(proto, text).refused == {"NCCL_PROTO": text}
    assert info(proto, algo, text).refused == {"NCCL_ALGO": text}
    assert info(text).refused == {"NCCL_PROTO": text, "NCCL_ALGO": text}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Adding NCCL_BUFFSIZE=8388608 to environment", "NCCL_BUFFSIZE", "8388608"),
        ("Setting FI_EFA_FORK_SAFE environment variable to 1", "FI_EFA_FORK_SAFE", "1"),
        ("Setting NCCL_NVLS_CHUNKSIZE to 512KiB", "NCCL_NVLS_CHUNKSIZE", "524288"),
        ('Setting NCCL_PROTO to "simple"', "NCCL_PROTO", "simple"),
        ("Setting NCCL_PROTO='simple' to prevent data corruption", "NCCL_PROTO", "simple"),
        (
            "Running on p4d platform, Setting NCCL_TOPO_FILE environment variable to /t.xml",
            "NCCL_TOPO_FILE",
            "/t.xml",
        ),
    ],
)
def test_variables_added_by_the_aws_plugin(text: str, name: str, value: str) -> None:
    assert info(f"NET/OFI {text}").injected == {name: value}


@pytest.mark.parametrize(
    "text",
    [
        "NET/OFI Need to force simple protocol: GDR not supported",
        'NET/OFI Setting NCCL_PROTO to "simple"',
        "NET/OFI Setting NCCL_PROTO='simple' to prevent data corruption",
    ],
)
def test_simple_forced_by_the_plugin(text: str) -> None:
    assert info(text).forced_simple == text


def test_efa() -> None:
    readback = fixture("2.27-efa")
    assert readback.plugin == "aws-ofi-nccl 1.17.0"
    assert (readback.provider, readback.nics) == ("efa", 4)
    assert readback.forced_simple.endswith("byte delivery ordering not supported")
    assert readback.fallback == ""
    assert readback.injected["NCCL_P2P_NET_CHUNKSIZE"] == "524288"
    assert readback.p2p_chunk_bytes == 524288
    assert readback.links == (
        Link(transport="NET/Libfabric", gpu_direct=True, count=2),
        Link(transport="P2P/CUMEM", gpu_direct=False, count=1),
    )
    ring = readback.patterns[0]
    assert (ring.pattern, ring.channels, ring.type_intra, ring.type_inter) == (
        "ring",
        4,
        "NVL",
        "PXB",
    )
    assert (ring.bandwidth_intra, ring.bandwidth_inter) == (20.0, 12.0)


def test_an_older_plugin_without_its_number_of_cards() -> None:
    readback = info(
        "NET/OFI Using aws-ofi-nccl 1.4.0aws",
        "NET/OFI Selected Provider is efa",
        "Using network AWS Libfabric",
    )
    assert readback.plugin == "aws-ofi-nccl 1.4.0aws"
    assert (readback.provider, readback.nics) == ("efa", None)
    assert readback.network == "AWS Libfabric"


def test_silent_fall_back_to_sockets() -> None:
    assert fixture("2.21").fallback == "NET/OFI No eligible providers were found"
    failed = "Failed to initialize NET plugin SPCX"
    assert info(failed, "Using network Socket").fallback == failed
    missing = "NET/Plugin: libnccl-net.so: libc.so.6: version `GLIBC_2.38' not found"
    assert info(missing, "Using network Socket").fallback == missing
    loaded = "NET/Plugin: Loaded net plugin Libfabric (v11)"
    assert info(loaded, "Using network Socket").fallback == loaded


@pytest.mark.parametrize("name", ["2.10", "2.18", "2.29"])
def test_sockets_without_a_plugin_are_no_fall_back(name: str) -> None:
    assert fixture(name).network == "Socket"
    assert fixture(name).fallback == ""


def test_sockets_that_were_asked_for_are_no_fall_back() -> None:
    readback = info(
        "NET/Plugin: Loaded net plugin Libfabric (v11)",
        "NCCL_NET set by environment to Socket",
        "Using network Socket",
    )
    assert readback.fallback == ""


def test_sockets() -> None:
    readback = fixture("2.18")
    assert readback.devices == ("ens32", "ens33")
    assert (readback.socket_threads, readback.sockets_per_thread) == (4, 8)
    assert readback.nvls is False


@pytest.mark.parametrize(
    "text",
    [
        "maxCTAs 128 is larger than #channels upper limit 64, cap it to 64",
        "User asked for a maximum of 0 channels, setting it to 1",
        "Comm config minCTAs reset to NCCL_MIN_CTAS=4",
    ],
)
def test_notes_on_channel_limits(text: str) -> None:
    assert info(text).notes == (text,)


def test_what_has_no_place_in_a_readback_is_passed_over() -> None:
    readback = info(
        "Trees [0] 1/-1/-1->0->-1",
        "Ring 00 : 1 -> 0 -> 1",
        "Channel 00/02 :    0   1",
        "threadThresholds 8/8/64 | 16/8/64 | 512 | 512",
        "Connected all rings, use ring PXN 0 GDR 1",
        "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.08 (kernels 0.00)",
        "    AllReduce |    22.4/   4.8 |    35.4/   0.0 |",
    )
    assert readback == NcclReadback(processes=1, messages=7)
