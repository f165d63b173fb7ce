"""The YAML document: what is written is read back, and what is wrong is said with its line."""

import json
import os
import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import FieldError, UserError
from autotune.exporters import from_yaml, read, to_yaml, write_atomically
from autotune.exporters.document import settings_document, target_document, to_document
from autotune.exporters.text import scope
from autotune.model import (
    ActivationCheckpointing,
    BestConfiguration,
    Binding,
    CommunicationHook,
    Conclusion,
    DeviceKind,
    Dtype,
    Evidence,
    KnobValue,
    Ratio,
    Reading,
    ShardingStrategy,
    Target,
    TrainingSettings,
)
from autotune.model.variables import name_fault, value_fault

DOCUMENT = (Path(__file__).parents[2] / "docs" / "best_yaml.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[0]


def line_of(fragment: str, text: str = EXAMPLE) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if fragment in line)


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        from_yaml(text, "best.yaml")
    return str(caught.value)


def test_the_documented_example_is_what_is_written() -> None:
    assert to_yaml(from_yaml(EXAMPLE, "example")) == EXAMPLE


def test_every_field_is_documented() -> None:
    def leaves(data: dict[str, object], prefix: str = "") -> list[str]:
        return [
            leaf
            for key, value in data.items()
            for leaf in (
                leaves(value, f"{prefix}{key}.")  # type: ignore[arg-type]
                if isinstance(value, dict) and f"{prefix}{key}" not in whole
                else [f"{prefix}{key}"]
            )
        ]

    whole = {"settings.environment", "evidence.baseline", "evidence.winner", "evidence.ratio"}
    whole |= {"versions", "fingerprint.shapes"}
    optional = [f"evidence.{name}" for name in ("pinned", "only", "shared_with")]
    parallelism = [f.name for f in fields(TrainingSettings)]
    parallelism = [
        name for name in parallelism if name not in ("micro_batch", "accumulation_steps")
    ]
    found = [
        *leaves(yaml.safe_load(EXAMPLE)),
        *(f"settings.parallelism.{name}" for name in parallelism),
        *optional,
    ]
    assert [path for path in found if f"`{path}`" not in DOCUMENT] == []
    for kind in (
        ShardingStrategy,
        Conclusion,
        ActivationCheckpointing,
        CommunicationHook,
        Dtype,
        Binding,
    ):
        values = {member.value for member in kind} - {"no_candidate"}
        assert [value for value in values if f"`{value}`" not in DOCUMENT] == []


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    best = from_yaml(EXAMPLE, "example")
    write_atomically(tmp_path / "best.yaml", to_yaml(best))
    assert read(tmp_path / "best.yaml") == best


TRAPS = [
    "on", "No", "y", "0x10", "010", "1e3", "2:30", "1_000", "null", "~", "", "2024-01-01", "<<",
    "=", "- a", "a: b", "#x", "*x", "&x", "!x", "%x", "@x", "'", '"', " x ", "é 🚀 \u2028",
    ".5", "1.", "true", ".inf",
]  # fmt: skip


def test_other_readers_see_traps_as_text() -> None:
    best = from_yaml(EXAMPLE, "example")
    environment = {f"V{i}": value for i, value in enumerate(TRAPS)} | {"ON": "x", "NO": "x"}
    text = to_yaml(changed(best, environment=environment, versions=environment))
    assert from_yaml(text, "x").environment == environment
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        data = yaml.load(text, Loader=loader)
        assert data["settings"]["environment"] == environment
        assert data["versions"] == environment


def changed(best: BestConfiguration, **changes: object) -> BestConfiguration:
    return BestConfiguration(**{**vars(best), **changes})  # type: ignore[arg-type]


def test_figures_are_rounded_for_people() -> None:
    best = from_yaml(EXAMPLE, "example")
    ratio = Ratio(estimate=1.0 + 1 / 3, low=1 + 1e-9, high=1e9 / 3, confidence=0.95)
    evidence = replace(best.evidence, ratio=ratio, pinned={"fraction": 1 / 3})
    text = to_yaml(changed(best, evidence=evidence))
    assert "    estimate: 1.33333\n    low: 1.0\n    high: 333333000.0\n" in text
    assert from_yaml(text, "x").evidence == replace(
        evidence, ratio=Ratio(estimate=1.33333, low=1.0, high=333333000.0, confidence=0.95)
    )


def test_what_the_user_held_is_part_of_the_document_and_of_its_head() -> None:
    best = from_yaml(EXAMPLE, "example")
    evidence = replace(
        best.evidence, ratio=None, winner=None,
        pinned={"strategy": "ddp", "static_graph": True, "groups": 1, "odd": "0x10"},
        only=("bucket_cap_mb",), shared_with=("run r2 (pid 7)",),
    )  # fmt: skip
    kept = changed(best, conclusion=Conclusion.KEEP_DEFAULTS, evidence=evidence)
    text = to_yaml(kept)
    assert from_yaml(text, "x") == kept
    head = text.partition("schema:")[0]
    held = "strategy=ddp static_graph=true groups=1 odd=0x10"
    assert f"keep the defaults with {held} for" in head
    assert f"{held} were held; only bucket_cap_mb was searched." in head


@pytest.mark.parametrize(
    ("pinned", "only", "says"),
    [
        ({}, (), ""),
        ({"groups": 1}, (), "groups=1 was held"),
        ({}, ("strategy", "groups"), "only strategy, groups were searched"),
        ({"a": 1, "b": True}, ("c",), "a=1 b=true were held; only c was searched"),
    ],
)
def test_one_knob_was_and_several_were(
    pinned: dict[str, KnobValue], only: tuple[str, ...], says: str
) -> None:
    assert scope(pinned, only) == says


def test_the_document_for_json_has_the_names_of_the_yaml() -> None:
    best = from_yaml(EXAMPLE, "example")
    document = to_document(best)
    assert json.loads(json.dumps(document)) == yaml.safe_load(EXAMPLE)
    section = settings_document(best.settings, best.environment, best.target.ranks)
    assert section == document["settings"]
    assert target_document(best.target) == document["for"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema: autotune/v1", "schema: autotune/v2", "schema: 'autotune/v2' can't be read"),
        ("schema: autotune/v1", "schema: 1", "schema: 1 can't be read"),
        ("  nodes: 2", "  nodes: two", "for.nodes: 'two' has to be a whole number"),
        ("  nodes: 2", "  nodes: 0", "for.nodes: 0 has to be at least 1"),
        ("  nodes: 2", "  nodes: 2.0", "for.nodes: 2.0 has to be a whole number"),
        ("  nodes: 2", "  nodes: true", "for.nodes: True has to be a whole number"),
        ("  nodes: 2", "  nodes: 02", "for.nodes: '02' is read differently"),
        ("  nodes: 2", "  nodes: 2:30", "for.nodes: '2:30' is read differently"),
        ("  nodes: 2", f"  nodes: {'9' * 5000}", "for.nodes: '9999"),
        ("  nodes: 2", "  nodse: 2", "for.nodse: 'nodse' is unknown; did you mean 'nodes'?"),
        ("  nodes: 2", "  nodes: [2]", "for.nodes: [2] has to be a whole number"),
        ("instance: p4d.24xlarge", "instance: ''", "for.instance: '' has to be given"),
        ("  global_batch: 512", "  global_batch: 500",
         "settings.batch.global: 512 has to equal for.global_batch, 500"),
        ("conclusion: improved", "conclusion: better",
         "conclusion: 'better' is not known (one of: improved, keep_defaults"),
        ("conclusion: improved", "conclusion: no_candidate", "conclusion: 'no_candidate' leaves"),
        ('"8388608"', "8388608", "settings.environment.NCCL_BUFFSIZE: 8388608 has to be text"),
        ('"8388608"', "0x10", "settings.environment.NCCL_BUFFSIZE: '0x10' is read differently"),
        ('"8388608"', "on", "settings.environment.NCCL_BUFFSIZE: 'on' is read differently"),
        ('"8388608"', r'"a\nb"', r"settings.environment.NCCL_BUFFSIZE: 'a\nb' has to be one line"),
        ('"8388608"', r'"a\0b"', r"settings.environment.NCCL_BUFFSIZE: 'a\x00b' has to be one li"),
        ("NCCL_BUFFSIZE", "NCCL-BUFFSIZE", "'NCCL-BUFFSIZE' has to be a variable's name"),
        ("NCCL_BUFFSIZE", "AUTOTUNE_X", "'AUTOTUNE_X' is set by autotune or"),
        ("    NCCL_BUFFSIZE", "    on", "settings.environment.on: 'on' is read differently"),
        ("    NCCL_BUFFSIZE", "    7", "settings.environment.7: 7 has to be text"),
        ("strategy: hybrid", "strategy: fsdp", "settings.parallelism.strategy: 'fsdp' is not"),
        ("strategy: hybrid", "strategy: ddp", "settings.parallelism.reshard_after_forward: True"),
        ("shard_size: 8", "shard_size: 7",
         "settings.parallelism.shard_size: 7 has to divide the 16 ranks"),
        ("shard_size: 8", "bucket_cap_mb: 8",
         "settings.parallelism.bucket_cap_mb: 8 doesn't apply to"),
        ("forward: true", "forward: yes",
         "settings.parallelism.reshard_after_forward: 'yes' is read differently"),
        ("    micro: 16", "    micro: 0", "settings.batch.micro: 0 has to be at least 1"),
        ("    micro: 16", "    micro: null", "settings.batch.micro: None has to be a whole number"),
        ("kind: measured", "kind: simulated", "evidence.kind: 'simulated' is not known"),
        ("device: cuda", "device: tpu", "evidence.device: 'tpu' is not known"),
        ("trials: 41", "trials: -1", "evidence.trials: -1 has to be 0 or more"),
        ("second: 1203.41", "second: nan", "evidence.baseline.samples_per_second: nan has to be p"),
        ("second: 1203.41", "second: fast", "evidence.baseline.samples_per_second: 'fast' has to"),
        ("percent: 1.2", "percent: -1.2", "evidence.baseline.spread_percent: -1.2 has to be 0 or"),
        ("stability: 0.98", "stability: 1.5", "evidence.winner.stability: 1.5 has to be between"),
        ("estimate: 1.083", "estimate: 0.9", "evidence.ratio.estimate: 0.9 contradicts improved"),
        ("low: 1.061", "low: 1.2", "evidence.ratio.low: 1.2 has to be from 0 to the estimate, 1.0"),
        ("low: 1.061", "low: nan", "evidence.ratio.low: nan has to be from 0 to"),
        ("low: 1.061", "low: -inf", "evidence.ratio.low: -inf has to be from 0 to"),
        ("low: 1.061", "low: -1", "evidence.ratio.low: -1.0 has to be from 0 to"),
        ("high: 1.105", "high: inf", "evidence.ratio.high: inf has to be finite"),
        ("high: 1.105", "high: 1.08", "evidence.ratio.high: 1.08 has to be finite and at least"),
        ("high: 1.105", "high: nan", "evidence.ratio.high: nan has to be finite"),
        ("estimate: 1.083", "estimate: nan", "evidence.ratio.estimate: nan has to be positive"),
        ("confidence: 0.95", "confidence: nan", "evidence.ratio.confidence: nan has to be in (0"),
        ("confidence: 0.95", "confidence: .nan", "evidence.ratio.confidence: '.nan' is read dif"),
        ("percent: 1.2", "percent: inf", "evidence.baseline.spread_percent: inf has to be 0 or"),
        ("stability: 0.98", "stability: nan", "evidence.winner.stability: nan has to be between"),
        ("trials: 41", "trials: 41\n  pinned: {a: .inf}", "evidence.pinned.a: '.inf' is read"),
        ("trials: 41", "trials: 41\n  pinned: [a]", "evidence.pinned: ['a'] has to be a mapping"),
        ("trials: 41", "trials: 41\n  only: a", "evidence.only: 'a' has to be a list"),
        ("confidence: 0.95", "confidence: 95", "evidence.ratio.confidence: 95.0 has to be in (0"),
        ("created: '2026-01-02T03:04:05+00:00'", "created: 2026-01-02T03:04:05",
         "created: '2026-01-02T03:04:05' has to be an ISO 8601 time with its zone"),
        ("run: 20260102-030405-7f3a", "run: ''", "run: '' has to be given"),
        ("  torch:", "  nccl: '1'\n  torch:", "versions.nccl: 'nccl' stands already in line 61"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_said_with_its_line(old: str, new: str, message: str) -> None:
    text = EXAMPLE.replace(old, new, 1)
    said = refused(text)
    assert message in said
    line = text.splitlines()[int(said.split(":")[1]) - 1]
    field = message.partition(":")[0].rpartition(".")[2]
    assert line in new_lines(text) or line.strip().startswith(f"{field}:")


def new_lines(text: str) -> list[str]:
    """What the test changed, which is where the error is, unless two fields contradict."""
    before = EXAMPLE.splitlines()
    return [line for line in text.splitlines() if line not in before]


@pytest.mark.parametrize(
    ("cut", "path", "line_with"),
    [
        ("schema: autotune/v1\n", "schema", "autotune: the fastest"),
        ("  nodes: 2\n", "for.nodes", "for:"),
        ("    micro: 16\n", "settings.batch.micro", "  batch:"),
        ("    strategy: hybrid\n", "settings.parallelism.strategy", "  parallelism:"),
        ("    launches: 5\n", "evidence.baseline.launches", "  baseline:"),
        ("  reason: the winner beat the baseline by more than the spread between launches\n",
         "evidence.reason", "evidence:"),
    ],
)  # fmt: skip
def test_a_missing_field_is_said_with_its_section(cut: str, path: str, line_with: str) -> None:
    said = refused(EXAMPLE.replace(cut, "", 1))
    line = 4 if path == "schema" else line_of(line_with, EXAMPLE.replace(cut, "", 1))
    rule = "None can't be read" if path == "schema" else "is required but missing"
    assert said.startswith(f"best.yaml:{line}: {path}: {rule}")


def test_a_batch_that_does_not_multiply_shows_the_arithmetic() -> None:
    said = refused(EXAMPLE.replace("    micro: 16", "    micro: 8"))
    assert said.startswith(f"best.yaml:{line_of('settings:')}: settings: '8 x 2 x 16 ranks = 256'")


def test_a_repeated_key_is_said_with_both_lines() -> None:
    said = refused(EXAMPLE.replace("  nodes: 2\n", "  nodes: 2\n  nodes: 2\n"))
    first = line_of("  nodes:")
    assert said == f"best.yaml:{first + 1}: for.nodes: 'nodes' stands already in line {first}"


def test_an_improvement_needs_a_winner() -> None:
    start, end = EXAMPLE.index("  winner:"), EXAMPLE.index("  ratio:")
    text = EXAMPLE[:start] + "  winner: null\n" + EXAMPLE[end:]
    assert "evidence.ratio: 1.083 needs both" in refused(text)
    start, end = text.index("  ratio:"), text.index("  reason:")
    assert "evidence.winner: None has to be there" in refused(
        text[:start] + "  ratio: null\n" + text[end:]
    )


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "best.yaml: is empty"),
        ("# only a comment\n", "best.yaml: is empty"),
        ("a\n", "document: 'a' has to be a mapping"),
        ("[1, 2]", "document: [1, 2] has to be a mapping"),
        ("a: [\n", "best.yaml:2: is not valid YAML"),
        ("a: b: c\n", "best.yaml:1: is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "best.yaml:2: is not valid YAML: but found another document"),
        ("a: 1\nb: \x1b[2J\n", "best.yaml:2: is not valid YAML: holds the character U+001B"),
        (r'a: "\UFFFFFFFF"', "best.yaml: is not valid YAML"),
        (f"%YAML {'9' * 5000}.1\n---\na: 1\n", "best.yaml: is not valid YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "best.yaml:1: tags (!name)"),
        ("? [a]\n: b\n", "has to be text, as every key"),
        ("a: &x 1\nb: *x\n", "best.yaml:2: aliases (*name)"),
        ("<<: {a: 1}\n", "is read differently"),
        (BOMB, "best.yaml:2: aliases (*name)"),
        ("[" * 100_000, "is nested deeper than 16 levels"),
        ("{a: " * 50_000, "is nested deeper than 16 levels"),
        ("- " * 100_000, "is nested deeper than 16 levels"),
        ("x" * (256 * 1024 + 1), "262145 bytes is more than the 262144"),
    ],
)
def test_hostile_text_is_refused_quickly(text: str, message: str) -> None:
    assert message in refused(text)


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}\"'\\&*!|>%@#\n 019.\tUxu"))
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, EXAMPLE.replace("p4d.24xlarge\n", f"{text}\n", 1)):
        try:
            from_yaml(candidate, "best.yaml")
        except UserError as error:
            assert str(error).startswith("best.yaml:")  # noqa: PT017


words = st.text(min_size=1)
lines = st.one_of(
    st.sampled_from(TRAPS),
    st.text(st.characters(exclude_categories=("Cs", "Cc"))),
)
variables = st.from_regex(r"(?!AUTOTUNE_)[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
figures = st.floats(0.001, 1e6).map(lambda value: float(f"{value:.6g}"))
readings = st.builds(
    Reading,
    samples_per_second=figures,
    spread_percent=st.none() | figures,
    launches=st.integers(1, 99),
    stability=st.sampled_from([0.0, 0.5, 1.0]),
)
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def may_be_set(environment: dict[str, str]) -> bool:
    return not any(name_fault(n) or value_fault(n, v) for n, v in environment.items())


@st.composite
def configurations(draw: st.DrawFn) -> BestConfiguration:
    ranks_per_node, micro, steps = (draw(st.sampled_from([1, 2, 4])) for _ in range(3))
    strategy = draw(st.sampled_from(ShardingStrategy))
    reshard = {
        ShardingStrategy.FSDP_FULL: st.just(True) | st.just(ranks_per_node),
        ShardingStrategy.FSDP_GRAD_OP: st.just(False),
        ShardingStrategy.HYBRID: st.booleans(),
        ShardingStrategy.DDP: st.none(),
    }[strategy]
    layout = TrainingSettings(
        strategy=strategy,
        micro_batch=micro,
        accumulation_steps=steps,
        reshard_after_forward=draw(reshard),
        shard_size=ranks_per_node if strategy is ShardingStrategy.HYBRID else None,
        bucket_cap_mb=None if strategy.is_fsdp else draw(st.none() | st.integers(1, 500)),
        activation_checkpointing=draw(st.sampled_from(ActivationCheckpointing)),
    )
    target = Target(
        instance=draw(words),
        nodes=draw(st.integers(1, 3)),
        ranks_per_node=ranks_per_node,
        workload=draw(words),
        global_batch=1,
    )
    target = Target(**{**vars(target), "global_batch": layout.global_batch(target.ranks)})
    low, high = sorted([draw(figures), draw(figures)])
    return BestConfiguration(
        target=target,
        conclusion=draw(st.sampled_from([Conclusion.KEEP_DEFAULTS, Conclusion.UNCONFIRMED])),
        settings=layout,
        environment=draw(st.dictionaries(variables, lines, max_size=4).filter(may_be_set)),
        evidence=Evidence(
            baseline=draw(readings),
            winner=draw(readings),
            ratio=draw(
                st.none() | st.just(Ratio(estimate=high, low=low, high=high, confidence=0.95))
            ),
            device=draw(st.sampled_from(DeviceKind)),
            trials=draw(st.integers(0, 10**6)),
            reason=draw(st.text()),
        ),
        versions=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
        run_id=draw(words),
        created_at=draw(st.datetimes(timezones=zones | st.just(UTC))),
    )


@settings(deadline=None)
@given(configurations())
def test_what_is_written_is_read_back(best: BestConfiguration) -> None:
    text = to_yaml(best)
    assert from_yaml(text, "x") == best
    assert type(yaml.safe_load(text)) is dict


def test_a_time_without_zone_is_not_written() -> None:
    best = from_yaml(EXAMPLE, "example")
    with pytest.raises(FieldError, match="time zone"):
        to_yaml(changed(best, created_at=datetime(2026, 1, 2)))  # noqa: DTZ001


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "best.yaml")
    with pytest.raises(UserError, match="is not a regular file"):
        read(tmp_path / "best.yaml")
