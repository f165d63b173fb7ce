"""The model's own rules: codec, candidates, settings, protocol."""

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import FieldError
from autotune.model import (
    PRESETS,
    BestConfiguration,
    Candidate,
    Conclusion,
    DeviceKind,
    Evidence,
    ShardingStrategy,
    Target,
    TrainingSettings,
    TrialSpec,
    Window,
    decode,
    encode,
    preset,
)
from autotune.model.protocol import (
    Answer,
    Finished,
    Started,
    Verdict,
    WindowDone,
    from_line,
    to_line,
)
from tests.fakes import measurement

SPEC = TrialSpec(
    trial_id="run-0001",
    workload="tiny",
    settings=TrainingSettings(micro_batch=4, accumulation_steps=2),
    environment={"NCCL_PROTO": "Simple"},
    device=DeviceKind.CPU,
)
KNOB_VALUES = st.booleans() | st.integers() | st.floats() | st.text()


def test_a_spec_survives_json() -> None:
    assert decode(TrialSpec, json.loads(json.dumps(encode(SPEC)))) == SPEC


@given(st.dictionaries(st.text(), KNOB_VALUES))
def test_candidates_survive_json(values: dict[str, bool | int | float | str]) -> None:
    candidate = Candidate(values)
    text = json.dumps(encode(candidate), allow_nan=False)
    again = decode(Candidate, json.loads(text))
    finite = all(not isinstance(v, float) or math.isfinite(v) for v in values.values())
    assert again == candidate or not finite


def test_non_finite_floats_travel_as_words() -> None:
    window = Window(index=0, steps=1, samples=8, seconds=math.inf)
    text = json.dumps(encode(window), allow_nan=False)
    assert decode(Window, json.loads(text)).seconds == math.inf


def test_true_and_one_are_different_candidates() -> None:
    assert Candidate({"reshard": True}) != Candidate({"reshard": 1})
    assert Candidate({"reshard": True}).differences(Candidate({"reshard": 1})) == {"reshard": True}


def test_order_of_knobs_makes_no_difference() -> None:
    assert Candidate({"a": 1, "b": 2}) == Candidate({"b": 2, "a": 1})
    assert len({Candidate({"a": 1, "b": 2}), Candidate({"b": 2, "a": 1})}) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"micro_batch": 0}}, ["settings.micro_batch", "0", "at least 1"]),
        ({"settings": {"micro_batch": "4"}}, ["settings.micro_batch", "'4'", "whole number"]),
        ({"settings": {"micro_batch": True}}, ["settings.micro_batch", "True", "whole number"]),
        (
            {"settings": {"micro_batch": 1, "strategy": "fsdp"}},
            ["settings.strategy", "'fsdp'", "did you mean", "fsdp_full"],
        ),
        ({"settings": {}}, ["settings.micro_batch", "missing"]),
        ({"colour": 1}, ["colour", "unknown", "workload"]),
        ({"environment": {"A": 1}}, ["environment.A", "1", "text"]),
        ({"plan": {"windows": 0}}, ["plan.windows", "0", "at least 1"]),
        ({"plan": {"window_s": 10**400}}, ["plan.window_s", "beyond the largest"]),
        ({"plan": {"window_s": "nan"}}, ["plan.window_s", "nan", "positive and finite"]),
    ],
)
def test_a_bad_field_is_named_with_value_and_rule(change: object, words: list[str]) -> None:
    with pytest.raises(FieldError) as caught:
        decode(TrialSpec, {**encode(SPEC), **dict(change)})  # type: ignore[call-overload]
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": "ddp", "reshard_after_forward": True},
        {"strategy": "ddp", "shard_size": 2},
        {"strategy": "fsdp_full", "reshard_after_forward": False},
        {"strategy": "fsdp_full"},
        {"strategy": "fsdp_full", "reshard_after_forward": True, "bucket_cap_mb": 25},
        {"strategy": "fsdp_grad_op", "reshard_after_forward": True},
        {"strategy": "hybrid", "reshard_after_forward": True},
        {"strategy": "hybrid", "reshard_after_forward": 2, "shard_size": 2},
        {"strategy": "fsdp_full", "reshard_after_forward": True, "shard_size": 2},
    ],
)
def test_contradictory_settings_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(FieldError):
        decode(TrainingSettings, {"micro_batch": 1, **fields})


def test_a_configuration_has_to_give_its_global_batch() -> None:
    target = Target(instance="x", nodes=1, ranks_per_node=2, workload="tiny", global_batch=32)
    with pytest.raises(FieldError, match="global batch of 32"):
        BestConfiguration(
            target=target,
            conclusion=Conclusion.KEEP_DEFAULTS,
            settings=TrainingSettings(micro_batch=4, accumulation_steps=2),
            environment={},
            evidence=Evidence(
                baseline=None, winner=None, ratio=None, device=DeviceKind.CPU, trials=1, reason=""
            ),
            versions={},
            run_id="r",
            created_at=datetime.now(UTC),
        )


def test_messages_survive_their_line() -> None:
    window = WindowDone(window=Window(index=2, steps=3, samples=96, seconds=0.5))
    for message in (Started(rank=1, pid=7, host="h"), window, Answer(verdict=Verdict.STOP)):
        line = to_line(message)
        assert line.count(b"\n") == 1
        assert from_line(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"type": "started", "rank": 0, "pid": 1, "host": "h"}',
        b'{"v": 2, "type": "started", "rank": 0, "pid": 1, "host": "h"}',
        b'{"v": true, "type": "started", "rank": 0, "pid": 1, "host": "h"}',
        b'{"v": 1, "type": "begun"}',
        b'{"v": 1, "type": ["started"]}',
        b'{"v": 1, "type": "started", "rank": "0", "pid": 1, "host": "h"}',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(FieldError):
        from_line(line)


@pytest.mark.parametrize(
    "figures", [{"steps": 0}, {"samples": -1}, {"seconds": 0.0}, {"seconds": float("nan")}]
)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_window_that_nobody_can_have_measured_is_refused(
    figures: dict[str, float], at_the_end: bool
) -> None:
    """Its rate would be divided by nothing."""
    window = Window(**{"index": 0, "steps": 3, "samples": 96, "seconds": 0.5, **figures})  # type: ignore[arg-type]
    message = (
        Finished(measurement=measurement([window], {})) if at_the_end else WindowDone(window=window)
    )
    name, value = next(iter(figures.items()))
    with pytest.raises(FieldError, match=rf"window.*\.{name}: .*{value}.* has to be"):
        from_line(to_line(message))


def test_presets_have_the_published_sizes() -> None:
    assert PRESETS["bert-large"].parameters == pytest.approx(335e6, rel=0.01)
    assert PRESETS["gpt2"].parameters == pytest.approx(124.4e6, rel=0.001)
    assert PRESETS["gpt2-medium"].parameters == pytest.approx(354.8e6, rel=0.001)
    assert PRESETS["llama-1b"].parameters == pytest.approx(1.2358e9, rel=0.001)
    with pytest.raises(FieldError, match="did you mean 'bert-large'"):
        preset("bert_large")


def test_every_strategy_but_ddp_is_fsdp() -> None:
    assert [s for s in ShardingStrategy if not s.is_fsdp] == [ShardingStrategy.DDP]
