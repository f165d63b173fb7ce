"""Counts the collectives of an optimizer step, and their bytes, as PyTorch issues them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_NAMES = {
    "c10d::allreduce_": "all_reduce",
    "c10d::allreduce_coalesced_": "all_reduce",
    "c10d::_allgather_base_": "all_gather",
    "c10d::allgather_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather",
    "c10d::_reduce_scatter_base_": "reduce_scatter",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "c10d::broadcast_": "broadcast",
    "_c10d_functional::all_reduce": "all_reduce",
    "_c10d_functional::all_reduce_": "all_reduce",
    "_c10d_functional::all_gather_into_tensor": "all_gather",
    "_c10d_functional::reduce_scatter_tensor": "reduce_scatter",
}


@dataclass
class Collectives:
    """What a stretch of code issued on this rank: collective to its calls and bytes."""

    calls: dict[str, int] = field(default_factory=dict)
    largest_bytes: dict[str, int] = field(default_factory=dict)
    """Sum over the calls of the larger of a call's tensors: the full, not the sharded side."""

    def add(self, name: str, size_bytes: int) -> None:
        """Note one call."""
        self.calls[name] = self.calls.get(name, 0) + 1
        self.largest_bytes[name] = self.largest_bytes.get(name, 0) + size_bytes


@contextmanager
def counted() -> Iterator[Collectives]:
    """Count what is issued inside. Slows it down: not for steps that are timed."""
    found = Collectives()
    with _Counter(found):
        yield found


class _Counter(TorchDispatchMode):
    def __init__(self, found: Collectives) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = _NAMES.get(function._schema.name)
        if name is not None:
            tensors = list(_tensors(args))
            sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
            self._found.add(name, max(sizes, default=0))
        return function(*args, **(kwargs or {}))


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
