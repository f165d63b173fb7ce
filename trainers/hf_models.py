"""Language models of the transformers library, from their configuration alone: no weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autotune.errors import FieldError, UserError
from autotune.trainers import text
from autotune.trainers.workload import LEARNING_RATE, MASK, MASKED_SHARE, Context, Workload

LONGEST_SEQUENCE = 512
"""Tokens of a sample, unless the model takes fewer."""
GLOBAL_BATCH = 64
IGNORED = -100
"""A label that transformers' losses leave out."""
_CAUSAL = ("ForCausalLM", "LMHeadModel")
_MASKED = ("ForMaskedLM",)


def build(name: str, context: Context) -> Workload:
    """The model that the configuration called `name` describes: of the hub, or a folder's.

    Raises UserError if there is none, or if it is neither a causal nor a masked language model.
    """
    import transformers  # noqa: PLC0415 - an extra

    try:
        config = transformers.AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise UserError(
            f"hf:{name}: its configuration can't be read: {str(error).splitlines()[0]}",
            hint="name a model of the hub, or a folder with its config.json",
        ) from None
    _without_chance(config)
    # Of decoders only: a trial never generates.
    config.use_cache = False
    architecture = _architecture(name, config)
    with context.device:
        model = getattr(transformers, architecture)(config)
    length = min(LONGEST_SEQUENCE, getattr(config, "max_position_embeddings", LONGEST_SEQUENCE))
    if config.vocab_size <= MASK:
        raise FieldError(f"hf:{name}: vocab_size", config.vocab_size, f"has to be above {MASK}")
    masked = architecture.endswith(_MASKED)
    return Workload(
        model=model.float().train(),
        batch=(_masked if masked else _causal)(context, length),
        loss=_loss,
        optimizer=lambda parameters: torch.optim.AdamW(
            parameters, lr=LEARNING_RATE, fused=context.device.type == "cuda"
        ),
        global_batch=GLOBAL_BATCH,
    )


def _architecture(name: str, config: Any) -> str:
    for architecture in getattr(config, "architectures", None) or ():
        if str(architecture).endswith((*_CAUSAL, *_MASKED)):
            return str(architecture)
    raise UserError(
        f"hf:{name}: is neither a causal nor a masked language model, but "
        f"{', '.join(getattr(config, 'architectures', None) or ['of no named architecture'])}",
        hint="write a function that builds it: --workload MODULE:FUNCTION",
    )


def _without_chance(config: Any) -> None:
    """No dropout: its random numbers differ from layout to layout, and losses with them."""
    for field, value in list(vars(config).items()):
        if isinstance(value, float) and ("dropout" in field or "pdrop" in field):
            setattr(config, field, 0.0)


def _loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    loss: Tensor = model(**batch).loss
    return loss


Batches = Callable[[int, int, int], dict[str, Tensor]]


def _causal(context: Context, length: int) -> Batches:
    def batch(step: int, first: int, count: int) -> dict[str, Tensor]:
        tokens = text.excerpts(
            seed=context.seed, step=step, first=first, count=count, length=length,
            device=context.device,
        )  # fmt: skip
        return {"input_ids": tokens, "labels": tokens}

    return batch


def _masked(context: Context, length: int) -> Batches:
    causal = _causal(context, length)

    def batch(step: int, first: int, count: int) -> dict[str, Tensor]:
        tokens = causal(step, first, count)["input_ids"]
        positions = text.choose_positions(
            seed=context.seed, step=step, first=first, count=count, length=length,
            chosen=max(1, round(MASKED_SHARE * length)), device=context.device,
        )  # fmt: skip
        labels = torch.full_like(tokens, IGNORED)
        labels.scatter_(1, positions, tokens.gather(1, positions))
        return {"input_ids": tokens.scatter(1, positions, MASK), "labels": labels}

    return batch
