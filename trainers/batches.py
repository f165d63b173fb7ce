"""A batch source from a map-style dataset, the same samples for every layout."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from autotune.trainers.text import scramble
from autotune.trainers.workload import Context


def batches_of(
    dataset: Any,
    context: Context,
    collate: Callable[[list[Any]], Any] = default_collate,
) -> Callable[[int, int, int], Any]:
    """What `Workload.batch` wants, of a `dataset` with a length and an index.

    Which samples follow from (seed, step, index in the global batch) alone. Tensors in what
    `collate` makes of them, inside of tuples, lists and dicts too, are moved to the context's
    device.
    """
    size = len(dataset)

    def batch(step: int, first: int, count: int) -> Any:
        index = torch.arange(first, first + count)
        chosen = scramble(index + (step << 32) + (context.seed << 48)) % size
        samples = [dataset[int(i)] for i in chosen]
        return _moved(collate(samples), context.device)

    return batch


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {name: _moved(item, device) for name, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, device) for item in value]
    if isinstance(value, tuple):
        moved = [_moved(item, device) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    return value
