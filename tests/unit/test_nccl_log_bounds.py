"""No log takes long to read, makes a reader fail, or fills its memory."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autotune.model import decode, encode
from autotune.trainers.nccl_log import (
    NcclReadback,
    effective,
    merge,
    parse,
    parse_processes,
    read_log,
)

pytestmark = pytest.mark.timeout(20)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nccl"
EFA = (FIXTURES / "2.27-efa.log").read_text()


HOSTILE = {
    "spaces": " " * 4000,
    "colons": ":" * 4000,
    "brackets": "[0] " * 1000,
    "origins": "h:1:2 [0] " * 400,
    "marks": "NCCL INFO " * 400,
    "messages": "h:1:2 [0] NCCL INFO " * 200,
    "prefixes": "NCCL " * 800,
    "names": "h:1:2 [0] NCCL INFO " + "NCCL_A" * 600,
    "refusals": "h:1:2 [0] NCCL INFO " + "Invalid value x for NCCL_" * 150,
    "inputs": "h:1:2 [0] NCCL INFO Input: { " + ".func = x, " * 350,
    "bests": "h:1:2 [0] NCCL INFO Best tuning { " + ".algo = RING, .proto = " * 150,
    "providers": "h:1:2 [0] NCCL INFO NET/OFI " + "Selected provider is efa, fabric is " * 100,
    "settings": "h:1:2 [0] NCCL INFO NET/OFI " + "Setting A_B to " * 250,
    "devices": "h:1:2 [0] NCCL INFO NET/Socket : Using " + "[0]" * 1000,
    "versions": "h:1:2 [0] NCCL INFO " + "NCCL version 2.1" * 200,
    "digits": "h:1:2 [0] NCCL INFO Pattern " + "1" * 3900,
    "bars": "|" * 4000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_line_takes_long(name: str) -> None:
    """A pattern that backtracks needs seconds or years for one of these: the limit ends it."""
    line = HOSTILE[name]
    readback = parse([line] * 20)
    assert len(str(encode(readback))) < 20_000


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_size_only(name: str) -> None:
    """A line of a megabyte costs about what its first few thousand characters do."""
    line = HOSTILE[name] * 250
    readback = parse([line])
    assert readback.truncated


def test_what_is_kept_is_bounded() -> None:
    def lines() -> list[str]:
        h = "h:1:2 [0] NCCL"
        result = []
        for i in range(500):
            result += [
                f"{h} INFO NCCL_X{i} set by environment to {'v' * 1000}",
                f"{h} INFO NET/OFI Adding NCCL_Y{i}=1 to environment",
                f"{h} INFO Invalid value a for NCCL_Z{i}, using default 1.",
                f"{h} INFO AllReduce: {i} Bytes -> Algo RING proto LL",
                f"{h} INFO comm {i:#x} rank 0 nranks 2 - Init COMPLETE",
                f"{h} INFO Channel 0 : 0 -> 1 via NET/{i}/0",
                f"{h} INFO NET/Socket : Using [0]eth{i}:1.1.1.1<0>",
                f"{h} WARN warning {i} {'w' * 1000}",
                f"host{i}:{i}:1 [0] NCCL INFO Using network Socket",
            ]
        return result

    readback = parse(lines())
    assert len(readback.environment) == len(readback.choices) == 256
    assert len(readback.warnings) == 32
    assert readback.dropped > 500
    assert readback.truncated
    assert len(str(encode(readback))) < 400_000


def test_so_many_processes_and_no_more() -> None:
    readbacks = parse_processes(f"h:{i}:1 [0] NCCL INFO Using network IB" for i in range(100))
    assert len(readbacks) == 64
    assert sum(readback.dropped for readback in readbacks) == 36


def test_counting_goes_on_when_nothing_new_is_kept() -> None:
    known = "h:1:2 [0] NCCL INFO AllReduce: 0 Bytes -> Algo RING proto LL"
    flood = [known.replace(": 0 ", f": {i} ") for i in range(300)]
    assert parse([*flood, known, known]).choices[0].count == 3


PIECES = [
    *EFA.splitlines(),
    *(FIXTURES / "2.31.log").read_text().splitlines(),
    *(FIXTURES / "2.21.log").read_text().splitlines(),
    *HOSTILE.values(),
]


@st.composite
def damaged_lines(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(PIECES))[:400]
    start, end = sorted((draw(st.integers(0, len(line))), draw(st.integers(0, len(line)))))
    return line[:start] + draw(st.text(max_size=12)) + line[end:]


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.one_of(st.text(max_size=80), st.sampled_from(PIECES), damaged_lines())),
    requested=st.dictionaries(
        st.sampled_from(["NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE", "x"]),
        st.one_of(st.text(), st.sampled_from(["ring;:", "^", "9" * 5000, "0x", "²"])),
    ),
)
@example(lines=["h:1:2 [0] NCCL INFO NCCL_MAX_CTAS set by environment to ²"], requested={})
def test_no_log_raises(lines: list[str], requested: dict[str, str]) -> None:
    readback = parse(lines)
    assert decode(NcclReadback, encode(readback)) == readback
    assert set(effective(readback, requested)) == requested.keys() - {"x"}
    str(encode(readback)).encode()
    merge([readback, *parse_processes(lines)])


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=400), keep=st.integers(0, 400))
def test_no_file_raises(tmp_path_factory: pytest.TempPathFactory, data: bytes, keep: int) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(EFA.encode()[: keep * 10] + data + EFA.encode()[keep * 10 :])
    read_log(path, largest_bytes=2000 + keep)
