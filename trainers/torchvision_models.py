"""Image classifiers of the torchvision library, without weights, on made-up images."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autotune.errors import FieldError, UserError
from autotune.trainers.text import scramble
from autotune.trainers.workload import LEARNING_RATE, Context, Workload

SIZE = 224
"""Pixels in height and width, as ImageNet's classifiers are trained on."""
GLOBAL_BATCH = 64
IMAGES = 32
"""Different ones; any number of samples is drawn from them."""


def build(name: str, context: Context) -> Workload:
    """The classifier called `name`.

    Raises FieldError if there is none, UserError if it has several outputs.
    """
    from torchvision import models  # noqa: PLC0415 - an extra

    known = models.list_models(module=models)
    if name not in known:
        raise FieldError("--workload torchvision", name, "is no classifier", alternatives=known)
    with context.device:
        model = models.get_model(name, weights=None).train()
    if getattr(model, "aux_logits", False):
        raise UserError(f"torchvision:{name}: has more than one output, and so no single loss")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            # Its random numbers differ from layout to layout, and losses with them.
            module.p = 0.0
    generator = torch.Generator().manual_seed(context.seed)
    images = torch.randn(IMAGES, 3, SIZE, SIZE, generator=generator).to(context.device)

    def batch(step: int, first: int, count: int) -> tuple[Tensor, Tensor]:
        index = torch.arange(first, first + count, device=context.device)
        drawn = scramble(index + (step << 32) + (context.seed << 48))
        return images[drawn % IMAGES], drawn % IMAGES

    return Workload(
        model=model,
        batch=batch,
        loss=_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9),
        global_batch=GLOBAL_BATCH,
    )


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    images, labels = batch
    return F.cross_entropy(model(images), labels)
