"""The transformer: its size, what its positions see, and what its flavours are."""

import pytest
import torch

from autotune.model import PRESETS, Form, TransformerConfig
from autotune.trainers.transformer import (
    INITIAL_STD,
    Transformer,
    rotary_table,
    rotate,
    transformer_on,
)


def small(form: Form = Form.DECODER, *, llama: bool = False) -> TransformerConfig:
    return TransformerConfig(
        name="small", help="", form=form, layers=2, width=32, heads=4,
        kv_heads=2 if llama else None, hidden=64, vocabulary=50, sequence=12, llama=llama,
        global_batch=8,
    )  # fmt: skip


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_it_has_the_parameters_that_the_configuration_says(config: TransformerConfig) -> None:
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters
    assert len(model.blocks) == config.layers


@pytest.mark.parametrize("config", [small(), small(llama=True)], ids=["gpt", "llama"])
def test_every_value_is_initialised(config: TransformerConfig) -> None:
    model = transformer_on(torch.device("cpu"), config)
    held = [*model.parameters(), *model.buffers()]
    with torch.no_grad():
        for tensor in held:
            tensor.fill_(float("nan"))
    model.initialise()
    assert all(tensor.isfinite().all() for tensor in held)
    assert model.embedding.weight.std().item() == pytest.approx(INITIAL_STD, rel=0.1)
    if model.rotation is not None:
        assert torch.equal(model.rotation, rotary_table(config))


def test_bert_large_is_as_large_as_bert_large() -> None:
    assert PRESETS["bert-large"].parameters == pytest.approx(335e6, rel=0.01)


@pytest.mark.parametrize("llama", [False, True])
def test_a_decoder_sees_backwards_only(llama: bool) -> None:
    model = Transformer(small(llama=llama))
    tokens = torch.arange(12).unsqueeze(0)
    changed = tokens.clone()
    changed[0, 7] = 40
    difference = (model(tokens) - model(changed)).abs().amax(dim=2)[0]
    assert difference[:7].max() == 0
    assert (difference[7:] > 0).all()


def test_an_encoder_sees_both_ways() -> None:
    model = Transformer(small(Form.ENCODER))
    tokens = torch.arange(12).unsqueeze(0)
    changed = tokens.clone()
    changed[0, 7] = 40
    assert ((model(tokens) - model(changed)).abs().amax(dim=2)[0] > 0).all()


def test_chosen_positions_are_those_of_the_whole() -> None:
    model = Transformer(small(Form.ENCODER))
    tokens = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(0))
    chosen = torch.tensor([[1, 5], [0, 11]])
    picked = model(tokens)[torch.arange(2).unsqueeze(1), chosen]
    torch.testing.assert_close(model(tokens, chosen), picked)


def test_rotary_scores_depend_on_distance_alone() -> None:
    table = rotary_table(small(llama=True))
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))
    turned_q = rotate(q.expand(1, 1, 12, 8), table)[0, 0]
    turned_k = rotate(k.expand(1, 1, 12, 8), table)[0, 0]
    scores = turned_q @ turned_k.T
    for distance in (0, 3):
        along = scores.diagonal(-distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))
    assert not torch.isclose(scores[0, 0], scores[3, 0])
