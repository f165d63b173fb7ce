"""What the parsers are fuzzed with: each target takes bytes, and may refuse them, nothing else."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotune.diagnosis import Log, diagnose
from autotune.errors import FieldError, UserError
from autotune.executors.channel import Channels
from autotune.executors.landscapes.files import read_scenario
from autotune.executors.landscapes.recorded import Recorded, parse_table
from autotune.exporters import EXPORTERS, from_yaml, to_yaml
from autotune.model import BestConfiguration, Study, Trial, decode, encode
from autotune.model.protocol import from_line
from autotune.model.secrets import redacted
from autotune.space.catalogue import load_knobs
from autotune.space.instances import load_instances
from autotune.trainers.nccl_log import parse as parse_nccl
from autotune.yaml_reader import parse_yaml, read_yaml
from tests.conformance.records import a_best, a_study, a_trial

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
EXAMPLE = (ROOT / "docs" / "best_yaml.md").read_text("utf-8")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parser, what it may raise, and inputs to start from."""

    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]

    def __call__(self, data: bytes) -> bool:
        """Whether `data` was accepted. Raises what the parser mustn't."""
        try:
            self.parse(data)
        except self.refusals:
            return False
        return True


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _best(data: bytes) -> None:
    best = from_yaml(_text(data), "best.yaml")
    again = from_yaml(to_yaml(best), "again.yaml")
    if again.settings != best.settings or again.environment != best.environment:
        raise AssertionError("what is written isn't what was read")
    for exporter in EXPORTERS.values():
        with suppress(UserError):  # what the other tool has no place for
            exporter.export(best)


def _landscape(data: bytes) -> None:
    scenario = read_scenario(parse_yaml(_text(data), "own.yaml"))
    if scenario.table is None:
        scenario.landscape("own")


def _channel(data: bytes) -> None:
    """All of it at once, as a rank that has gone mad would send it."""
    channels = Channels(line_limit_bytes=4096)
    try:
        with channels.open(0) as rank:
            rank.sendall(data[:60_000])
        for _ in range(100):
            if not channels.wait(0):
                break
    finally:
        channels.close()


def _record(kind: type[object]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            raise FieldError("record", data, "is not JSON") from None
        record = decode(kind, content)
        return decode(kind, json.loads(json.dumps(encode(record), allow_nan=False)))

    return parse


def _files(*patterns: str) -> tuple[bytes, ...]:
    return tuple(p.read_bytes() for pattern in patterns for p in sorted(ROOT.glob(pattern)))


def _best_seeds() -> tuple[bytes, ...]:
    block = EXAMPLE.partition("```yaml\n")[2].partition("```")[0]
    return (block.encode(),)


def _instances() -> tuple[bytes, ...]:
    """The last two entries of the catalogue: all of it takes long to read."""
    text = _files("search_spaces/instances.yaml")[0]
    entries = text.split(b"\n  - name: ")
    return (b"\n  - name: ".join([b"instances:", *entries[-2:]]),)


def _as_json(record: object) -> tuple[bytes, ...]:
    return (json.dumps(encode(record)).encode(),)


_LINES = (
    b'{"v": 1, "type": "started", "rank": 0, "pid": 7, "host": "a"}\n',
    b'{"v": 1, "type": "window", "window": {"index": 0, "steps": 3, "samples": 9, "seconds": 0.1}}'
    b"\n",
    b'{"v": 1, "type": "failed", "rank": 0, "kind": "error", "exception": "E", "message": "m", '
    b'"traceback": "t"}\n',
    b'{"v": 1, "type": "answer", "verdict": "go"}\n',
)
_TABLE = (
    b"layout,launch,outcome,seconds,samples_per_second\n"
    b'"{""strategy"": ""ddp""}",0,completed,1.5,100 101.5\n'
    b'"{}",1,crashed,0.5,\n'
)

TARGETS = {
    "yaml": Target(
        parse=lambda data: read_yaml(_text(data), "x.yaml"),
        refusals=(UserError,),
        seeds=(
            b"a: [1, 2.5, true, null, 'x']\nb:\n  c: |\n    text\n",
            b"- &a 1\n- !!str x\n- {}\n",
        ),
    ),
    "best": Target(parse=_best, refusals=(UserError,), seeds=_best_seeds()),
    "space": Target(
        parse=lambda data: load_knobs([parse_yaml(_text(data), "own.yaml")]),
        refusals=(UserError,),
        seeds=_files("search_spaces/nccl.yaml", "search_spaces/ddp.yaml"),
    ),
    "instances": Target(
        parse=lambda data: load_instances([parse_yaml(_text(data), "own.yaml")]),
        refusals=(UserError,),
        seeds=_instances(),
    ),
    "landscape": Target(
        parse=_landscape, refusals=(UserError,), seeds=_files("search_spaces/landscapes/*.yaml")
    ),
    "table": Target(
        parse=lambda data: Recorded.of(parse_table(data.decode("utf-8", "replace"), Path("x.csv"))),
        refusals=(UserError,),
        seeds=(_TABLE,),
    ),
    "nccl log": Target(
        parse=lambda data: parse_nccl(_text(data).splitlines()),
        refusals=(),
        seeds=_files("tests/fixtures/nccl/*.log"),
    ),
    "diagnosis": Target(
        parse=lambda data: diagnose([Log.of(_text(data), rank=0), Log.of(_text(data[::-1]))]),
        refusals=(),
        seeds=_files("tests/fixtures/diagnosis/*.txt"),
    ),
    "secrets": Target(
        parse=lambda data: redacted(_text(data)),
        refusals=(),
        seeds=(b"https://a:b@c password='x' Authorization: Bearer abcdefgh token=0123456789abc",),
    ),
    "message": Target(parse=from_line, refusals=(FieldError,), seeds=_LINES),
    "channel": Target(parse=_channel, refusals=(), seeds=(b"".join(_LINES),)),
    "best record": Target(
        parse=_record(BestConfiguration), refusals=(FieldError,), seeds=_as_json(a_best())
    ),
    "trial record": Target(parse=_record(Trial), refusals=(FieldError,), seeds=_as_json(a_trial())),
    "study record": Target(parse=_record(Study), refusals=(FieldError,), seeds=_as_json(a_study())),
}
