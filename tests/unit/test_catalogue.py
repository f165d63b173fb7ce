"""The knobs as data: the shipped files, and what a user's file may and may not say."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from autotune.errors import UserError
from autotune.model import DeviceKind, TrainingSettings
from autotune.space.catalogue import SHIPPED, SHIPPED_FILES, load_knobs
from autotune.space.facts import ASSUMABLE, Facts
from autotune.space.facts import FACTS as FACT_NAMES
from autotune.space.knob import Effect, Knob, Searched, TargetKind
from autotune.space.space import Space
from autotune.space.view import view
from autotune.yaml_reader import parse_yaml

KNOBS = load_knobs()
FACTS = Facts(
    device=DeviceKind.CUDA,
    nodes=1,
    ranks_per_node=4,
    global_batch=32,
    nccl="2.27.5",
    compute_capability=80,
    nvswitch=True,
)


def load(text: str) -> dict[str, Knob]:
    return {knob.name: knob for knob in load_knobs([parse_yaml(text, "own.yaml")])}


def test_every_shipped_file_is_read() -> None:
    found = {path.name for path in SHIPPED.glob("*.yaml")}
    assert found == {*SHIPPED_FILES, "instances.yaml"}


def test_the_shipped_knobs_are_described() -> None:
    for knob in KNOBS:
        assert re.fullmatch(r"[A-Z].*\.", knob.help), knob.name
        assert knob.source, knob.name
        if knob.minimum is not None:
            assert knob.unit, knob.name


@pytest.mark.parametrize(
    "name",
    [
        "strategy", "reshard_after_forward", "shard_size", "accumulation_steps",
        "activation_checkpointing", "bucket_cap_mb", "gradient_as_bucket_view", "static_graph",
        "communication_hook", "forward_prefetch", "backward_prefetch", "reshard_after_backward",
        "force_sum_reduction", "blocks_per_group", "compute_dtype", "reduce_dtype", "compile",
        "nccl_channels", "nccl_buffer_bytes", "nccl_algorithm", "nccl_protocol", "nccl_nthreads",
        "nccl_p2p_level", "nccl_nvls", "nccl_cross_nic", "nccl_p2p_net_chunksize",
        "nccl_socket_nthreads", "nccl_nsocks_perthread", "ofi_protocol", "binding", "cpu_threads",
    ],
)  # fmt: skip
def test_a_knob_is_there(name: str) -> None:
    assert name in {knob.name for knob in KNOBS}


def test_every_setting_of_the_trainer_has_a_knob() -> None:
    settings = {field.name for field in fields(TrainingSettings)} - {"micro_batch"}
    set_by = {k.sets.name for k in KNOBS if k.sets.kind is TargetKind.ARGUMENT}
    assert settings == set_by


def test_large_effects_are_searched_first_within_a_file() -> None:
    order = list(Effect)
    effects = [order.index(k.effect) for k in KNOBS if k.searched is Searched.DEFAULT]
    assert effects.index(order.index(Effect.MEDIUM)) > 3
    assert effects[:4] == [0] * 4


TEN = """\
knobs:
  - name: nccl_channels
    choices: [{value: default}, {value: 8}, {value: 128}]
  - name: bucket_cap_mb
    efect: large
    effect: huge
  - name: my_knob
    help: Mine.
    sets: {kind: environment, name: NCCL_NCHANNELS}
    effect: small
    choices: [{value: default}, {value: 1}]
    default: default
  - name: strategy
    choices: [{value: ddp, when: {rank: ">=2"}}, {value: ddp}]
  - name: nccl_protocol
    when: {device: gpu}
  - name: other
    help: Other.
    sets: {kind: argument, name: bucket_mb}
    effect: small
    choices: [{value: 1}]
  - name: nccl_nthreads
    rule: nccl_thread
    minimum: 512
    maximum: 64
    when: {nccl: ">=two"}
  - name: shard_size
    touches: [allreduce]
    when: {binding: numa}
  - name: last
    sets: {kind: environment, name: GLOO_LAST}
    effect: small
    choices: [{value: default}, {value: 1}]
    default: default
"""
MISTAKES = {
    3: "knobs[0].choices[2].value: 128 is outside 1 to 64",
    5: "knobs[1].efect: 'efect' is unknown; did you mean 'effect'?",
    6: "knobs[1].effect: 'huge' is not known (one of: large, medium, small)",
    9: "knobs[2].sets.name: 'NCCL_NCHANNELS' does nothing: no NCCL up to 2.31 has a variable",
    14: "knobs[3].choices[0].when.rank: 'rank' is no knob and no fact; did you mean 'ranks'?",
    16: "knobs[4].when.device: 'gpu' is a value that it never has; did you mean 'cpu'?",
    19: "knobs[5].sets.name: 'bucket_mb' is unknown; did you mean 'bucket_cap_mb'?",
    23: "knobs[6].rule: 'nccl_thread' is unknown; did you mean 'cpu_threads'?",
    24: "knobs[6].minimum: 512 has to be at most the maximum, 64",
    26: "knobs[6].when.nccl: '>=two' is not a comparison such as '>=2.24'",
    28: "knobs[7].touches: 'allreduce' is unknown; did you mean 'all_reduce'?",
    29: "knobs[7].when.binding: 'binding' is asked after this knob, so it can't be a condition",
}


def test_every_mistake_in_a_file_gets_a_message_with_its_line() -> None:
    with pytest.raises(UserError) as caught:
        load(TEN)
    message = str(caught.value)
    lines = message.splitlines()
    for number, text in MISTAKES.items():
        found = [line for line in lines if line.startswith(f"  own.yaml:{number}: ")]
        assert any(text in line for line in found), (number, text, message)
    assert "own.yaml:14: knobs[3].choices[1].value: 'ddp' is there twice" in message
    assert "own.yaml:30: knobs[8].help: is required but missing" in message
    assert "hint: Set nccl_channels, which becomes a minimum and a maximum." in message
    numbers = [int(line.split(":")[1]) for line in lines if line.startswith("  own.yaml:")]
    assert numbers == sorted(numbers)
    assert lines[0] == f"own.yaml has {len(MISTAKES) + 2} mistakes:"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "own.yaml: is empty"),
        ("knob: []", "own.yaml:1: knobs: has to be a list of knobs"),
        ("knobs: 3", "own.yaml:1: knobs: 3 has to be a list of knobs"),
        ("knobs: []\nmore: 1", "own.yaml:2: more: 'more' is no key here"),
        ("knobs: [strategy]", r"own.yaml:1: knobs\[0\]: 'strategy' has to be a mapping"),
        ("knobs:\n  - {name: 3}", r"own.yaml:2: knobs\[0\].name: 3 has to be text"),
        ("knobs:\n  - {name: strategy}\n  - {name: strategy}", "own.yaml:3: .* is there twice"),
        ("knobs:\n  - {name: strategy, name: x}", "own.yaml:2: .*stands already in line 2"),
        ("knobs:\n  - name: strategy\n    default: on", "own.yaml:3: .*differently"),
        ("knobs:\n  - {name: strategy, choices: []}", "own.yaml:2: .*has to list at least"),
        ("knobs:\n  - {name: strategy, default: zero}", "has to be one of the choices .*fsdp_full"),
        ("knobs:\n  - {name: bucket_cap_mb, minimum: null}", "minimum: is needed"),
        ("knobs:\n  - {name: nccl_nthreads, default: 256}", "default: 256 has to be 'default'"),
        ("a: [", "own.yaml:1: is not valid YAML"),
    ],
)  # fmt: skip
def test_what_a_file_may_not_say(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load(text)


def entry(*lines: str) -> str:
    """A file with one knob, complete but for what `lines` change."""
    keys = {
        "name": "own", "help": "Mine.", "sets": "{kind: environment, name: GLOO_OWN}",
        "effect": "small", "choices": "[{value: default}, {value: 1}]", "default": "default",
    }  # fmt: skip
    for line in lines:
        key, _, value = line.partition(": ")
        keys[key] = value
    return "knobs:\n  - " + "\n    ".join(f"{key}: {value}" for key, value in keys.items())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("name: ranks", "name: 'ranks' is a fact"),
        ("name: my knob", "name: 'my knob' has to be a word"),
        ("sets: {kind: environment, name: OMP_NUM_THREADS}", "set by cpu_threads already"),
        ("sets: {kind: environment, name: NCCL_MAX_CTAS}", "set by nccl_channels already"),
        ("sets: {kind: environment, name: NCCL_ALGO}", "set by nccl_algorithm already"),
        ("sets: {kind: argument, name: compile}", "'compile' is set by compile already"),
        ("sets: {kind: logical, name: nccl_protocol}", "set by nccl_protocol already"),
        ('when: {nccl: "=>2.24"}', "when.nccl: '=>2.24' is not a comparison"),
        ('when: {nvlink: ">=2"}', "'>=2' is a comparison, and nvlink is neither"),
        ('when: {strategy: ">=2"}', "'>=2' is a comparison, and strategy is neither"),
        ('when: {ranks: [">=2", 8]}', "'>=2' is a comparison, which can't stand in a list"),
        ("when: {ranks: two}", "'two' has to be a whole number"),
        ("when: {torch: 2.9}", "2.9 has to be a version as text"),
        ("when: {nvlink: 1}", "1 is a value that it never has"),
        ("when: {network: tcp}", "'tcp' is a value that it never has"),
        ("choices: [{value: 1}, {valu: 2}]", r"choices\[1\].valu: 'valu' is unknown; did you mean"),
        ("sets: {kind: environment, name: NCCL_PXN_LEVEL}", "does nothing"),
    ],
)
def test_what_an_entry_may_not_say(change: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load(entry(change))
    assert "mistakes:" not in str(caught.value)


def test_a_complete_entry_is_taken() -> None:
    assert load(entry())["own"].help == "Mine."


@pytest.mark.parametrize(
    ("name", "choices", "says"),
    [
        ("nccl_nthreads", "100", "has to be a multiple of 32"),
        ("nccl_p2p_level", "PXX", "is none of LOC"),
        ("nccl_algorithm", "rings", "'rings' is unknown; did you mean 'ring'"),
        ("nccl_protocol", "l128", "did you mean 'll128'"),
        ("nccl_channels", "many", "has to be a whole number or default"),
        ("strategy", "fsdp", "did you mean 'fsdp_full'"),
    ],
)
def test_values_that_can_never_be(name: str, choices: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load(f"knobs:\n  - name: {name}\n    choices: [{{value: default}}, {{value: {choices}}}]")


def test_a_misspelt_entry_is_said_once_and_what_follows_from_a_mistake_is_not() -> None:
    with pytest.raises(UserError) as caught:
        load("knobs:\n  - {name: nccl_chanels, minimum: 2, maximum: 4, default: 9}")
    assert str(caught.value).startswith("own.yaml:2: knobs[0].name: 'nccl_chanels' is no knob")
    with pytest.raises(UserError) as caught:
        load(entry("sets: {kind: argumnt, name: strategy}", "default: ddp"))
    assert str(caught.value).startswith("own.yaml:4: knobs[0].sets.kind: 'argumnt' is not known")


def test_a_file_narrows_a_knob_and_has_it_searched() -> None:
    knobs = load("knobs:\n  - name: nccl_nthreads\n    choices: [{value: default}, {value: 256}]")
    before = next(knob for knob in KNOBS if knob.name == "nccl_nthreads")
    after = knobs["nccl_nthreads"]
    assert [choice.value for choice in after.choices] == ["default", 256]
    assert (before.searched, after.searched) == (Searched.FULL, Searched.DEFAULT)
    assert (after.help, after.when, after.sets) == (before.help, before.when, before.sets)
    assert list(knobs) == [knob.name for knob in KNOBS]


def test_what_a_rule_judges_is_narrowed_and_still_judged() -> None:
    text = "knobs:\n  - name: nccl_algorithm\n    choices: [{value: default}, {value: tree}]"
    space = Space(list(load(text).values()), FACTS)
    seen = view(space, space.knob("nccl_algorithm"))
    assert seen.values == ("default", "tree")
    fsdp = Space(list(load(text).values()), FACTS, pinned={"strategy": "fsdp_full"})
    seen = view(fsdp, fsdp.knob("nccl_algorithm"))
    assert seen.values == ("default",)
    assert "no tree for all-gather" in seen.left_out["tree"]


def test_a_file_adds_a_knob() -> None:
    text = """
knobs:
  - name: gloo_threads
    help: Threads of Gloo.
    sets: {kind: environment, name: GLOO_DEVICE_THREADS}
    effect: small
    choices: [{value: default}, {value: 2}]
    default: default
    when: {strategy: ddp, ranks: ">=2"}
"""
    space = Space(list(load(text).values()), FACTS, only=["gloo_threads"])
    candidates = list(space.candidates())
    assert [space.environment(c).get("GLOO_DEVICE_THREADS") for c in candidates] == [None, "2"]


def test_true_and_one_are_different_values() -> None:
    text = """
knobs:
  - name: own
    help: A test's.
    sets: {kind: environment, name: GLOO_OWN}
    effect: small
    default: default
    choices: [{value: true}, {value: 1}, {value: default}]
"""
    space = Space(list(load(text).values()), FACTS)
    assert view(space, space.knob("own")).values == (True, 1, "default")


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "1.0"), ("1", '"1"'), ("true", '"true"'), ("-0.0", "0.0"), ("0", "-0.0"),
     ("0.5", '"0.5"')],
)  # fmt: skip
def test_values_that_become_one_setting_are_refused(one: str, other: str) -> None:
    with pytest.raises(UserError) as caught:
        load(entry(f"choices: [{{value: default}}, {{value: {one}}}, {{value: {other}}}]"))
    first, second = (repr(yaml.safe_load(text)) for text in (one, other))
    said = f"knobs[0].choices[2].value: {second} is the same setting as {first}, choices[1]"
    assert said in str(caught.value)


def test_each_value_that_is_there_again_is_named_once() -> None:
    choices = ", ".join(f"{{value: {v}}}" for v in ("default", 1, 1.0, '"1"', 2, 2, "1.5", '"1.0"'))
    with pytest.raises(UserError) as caught:
        load(entry(f"choices: [{choices}]"))
    found = re.findall(r"choices\[(\d)\]\.value: (.*)", str(caught.value))
    assert found == [
        ("2", "1.0 is the same setting as 1, choices[1]"),
        ("3", "'1' is the same setting as 1, choices[1]"),
        ("5", "2 is there twice"),
        ("7", "'1.0' is the same setting as 1.0, choices[2]"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("name: 'MY VAR'", ["sets.name", "'MY VAR'", "variable's name"]),
        ("name: RANK", ["sets.name", "'RANK'", "set by autotune"]),
        ("name: AUTOTUNE_X", ["sets.name", "'AUTOTUNE_X'", "set by autotune"]),
    ],
)
def test_variables_that_can_not_be_set_are_refused(change: str, words: list[str]) -> None:
    text = f"""
knobs:
  - name: own
    help: A test's.
    sets: {{kind: environment, {change}}}
    effect: small
    default: default
    choices: [{{value: default}}, {{value: 1}}]
"""
    with pytest.raises(ValueError, match=r"own\.yaml:") as caught:
        load(text)
    for word in words:
        assert word in str(caught.value)


def test_a_value_that_the_trainer_can_not_take_is_refused() -> None:
    text = """
knobs:
  - name: bucket_cap_mb
    choices: [{value: default}, {value: banana}]
"""
    with pytest.raises(ValueError, match=r"choices\[1\].value: 'banana' has to be a whole number"):
        load(text)


def test_knobs_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "search_spaces.md").read_text("utf-8")
    keys = set(re.findall(r"`(\w+)`", text))
    assert {field.name for field in fields(Knob)} <= keys
    assert {*FACT_NAMES, *ASSUMABLE} <= keys
    assert {knob.name for knob in KNOBS} <= keys
