"""Every signature: fixture logs in all spellings, with what launchers put before each line."""

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.diagnosis import Log, diagnose
from autotune.diagnosis.catalogue import SIGNATURES, Catalogue
from autotune.diagnosis.lines import lines
from autotune.diagnosis.signature import Role, Signature, holds
from autotune.model import Outcome

FIXTURES = Path(__file__).parent.parent / "fixtures" / "diagnosis"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One log of the fixtures, and what it shows."""

    name: str
    outcome: Outcome
    rank: int | None
    host: str
    text: str


def blocks() -> Iterator[Block]:
    for path in sorted(FIXTURES.glob("*.txt")):
        for block in f"\n{path.read_text()}".split("\n== ")[1:]:
            head, _, text = block.partition("\n")
            name, outcome, *rest = head.split()
            said = dict(pair.split("=") for pair in rest)
            yield Block(
                name=name,
                outcome=Outcome(outcome),
                rank=int(said["rank"]) if "rank" in said else None,
                host=said.get("host", ""),
                text=text,
            )


BLOCKS = tuple(blocks())
IDS = [f"{block.name}-{index}" for index, block in enumerate(BLOCKS)]
HOST = "10.0.0.7"
PREFIXES: dict[str, Callable[[str], str]] = {
    "rank": lambda line: f"[rank1]: {line}",
    "torchrun": lambda line: f"[default1]:{line}",
    "ray": lambda line: f"(RayTrainWorker pid=4711, ip={HOST}, rank=1) {line}",
    "ray-colours": lambda line: f"\x1b[36m(RayTrainWorker pid=4711, rank=1)\x1b[0m {line}",
    "srun": lambda line: f"1: {line}",
    "mpirun": lambda line: f"[1,1]<stderr>:{line}",
    "time": lambda line: f"2026-03-12T14:17:56.123Z [rank1]: {line}",
    "bracketed-time": lambda line: f"[2026-03-12 14:17:56,123] [rank1]: {line}",
    "cloudwatch": lambda line: f"2026-03-12T14:17:56.123-07:00 | 1: {line}",
    "red": lambda line: f"\x1b[31m[rank1]: {line}\x1b[0m",
    "nul": lambda line: "[rank1]: " + "\0".join(line),
    "crlf": lambda line: f"[rank1]: {line}\r",
    "progress": lambda line: f"[rank1]:  12%|█▏        | 3/25\r[rank1]: {line}",
}


def check(block: Block, text: str, *, rank: int | None) -> None:
    found = diagnose([Log.of(text)])
    assert found is not None
    assert (found.signature, found.outcome) == (block.name, block.outcome)
    is_waiter = signature(block.name).role is Role.WAITER
    # Of a rank that waits, the rank to look at is another one.
    expected = block.rank if block.rank is not None else rank
    assert found.rank == (None if is_waiter else expected)
    assert 0 < len(found.quote) <= 300


def signature(name: str) -> Signature:
    return next(one for one in SIGNATURES if one.name == name)


@pytest.mark.parametrize("block", BLOCKS, ids=IDS)
def test_a_failure_is_known_in_any_case(block: Block) -> None:
    for change in (str, str.upper, str.lower):
        found = diagnose([Log.of(change(block.text))])
        assert found is not None
        assert (found.signature, found.outcome) == (block.name, block.outcome)
        assert found.host.lower() == block.host or not block.host


@pytest.mark.parametrize("block", BLOCKS, ids=IDS)
def test_prefixes_of_launchers_tell_the_rank(block: Block) -> None:
    for prefix in PREFIXES.values():
        check(block, "\n".join(map(prefix, block.text.splitlines())), rank=1)


@pytest.mark.parametrize("block", BLOCKS, ids=IDS)
def test_lines_that_something_has_wrapped(block: Block) -> None:
    for width in (72, 80, 100, 120):
        text = "\n".join(
            f"[rank1]: {line[start : start + width]}"
            for line in block.text.splitlines()
            for start in range(0, len(line) or 1, width)
        )
        found = diagnose([Log.of(text)])
        assert found is not None
        assert (width, found.signature, found.outcome) == (width, block.name, block.outcome)


@pytest.mark.parametrize("one", SIGNATURES, ids=lambda one: one.name)
def test_every_signature_is_needed(one: Signature) -> None:
    """Without it, a fixture would be told as something else: nothing before it covers it."""
    rest = Catalogue([other for other in SIGNATURES if other is not one])
    mine = [block for block in BLOCKS if block.name == one.name]
    assert mine
    if one.name == "exception":  # found by the shape of a traceback, not by a text alone
        return
    whole = Catalogue()
    found = [
        (whole.first(line.text), rest.first(line.text))
        for block in mine
        for line in lines(block.text)
    ]
    assert any(first is one and without is not one for first, without in found)


def spellings() -> list[tuple[Signature, str]]:
    return [
        (one, text)
        for one in SIGNATURES
        for text in one.texts
        if not re.search("exit|Signal", text)
    ]


@pytest.mark.parametrize(("one", "text"), spellings())
def test_every_spelling_is_in_a_fixture_and_not_shadowed(one: Signature, text: str) -> None:
    whole = Catalogue()
    if one.name == "exception":
        return
    held = [
        line.text
        for block in BLOCKS
        if block.name == one.name
        for line in lines(block.text)
        if holds(" ".join(line.text.lower().split()), text.lower())
    ]
    assert any(whole.first(line) is one for line in held)


EXITS = [
    (-15, "ended-by-sigterm"), (143, "ended-by-sigterm"), (-9, "killed"), (137, "killed"),
    (-7, "bus-error"), (135, "bus-error"), (-11, "segmentation-fault"),
    (139, "segmentation-fault"), (-6, "aborted"), (134, "aborted"), (1, "exited"),
    (-2, "interrupted"), (130, "interrupted"),
]  # fmt: skip
FORMS = [
    "failed (exitcode: {}) local_rank: 1 (pid: 4712) of binary: /usr/bin/python",
    "  exitcode  : {} (pid: 4712)",
    "srun: error: node-a: task 1: Exited with exit code {}",
    "worker 1 exited with code {}",
    "subprocess.CalledProcessError: returned non-zero exit status {}.",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("code", "name"), EXITS)
def test_exit_codes_as_launchers_write_them(code: int, name: str, form: str) -> None:
    found = diagnose([Log.of(form.format(code))])
    assert found is not None
    assert found.signature == name


@pytest.mark.parametrize(("code", "name"), [exit for exit in EXITS if exit[0] < 0])
def test_signals_as_torchrun_writes_them(code: int, name: str) -> None:
    number = signal.Signals(-code)
    text = f"  traceback : Signal {-code} ({number.name}) received by PID 4712"
    found = diagnose([Log.of(text)])
    assert found is not None
    assert found.signature == name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", [0, 10, 19, -99, 1370])
def test_other_exit_codes_are_not_taken_for_them(code: int, form: str) -> None:
    assert diagnose([Log.of(form.format(code))]) is None


def test_names_are_unique_and_texts_are_plain() -> None:
    names = [one.name for one in SIGNATURES]
    assert len(names) == len(set(names))
    for one in SIGNATURES:
        assert one.cause
        assert one.source
        assert not one.cause.endswith(".")
        assert not one.action.endswith(".")
        for text in one.texts:
            assert text == " ".join(text.split())
