"""The parts of a model that are laid out over the ranks, and how they are found."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import nn


class Layers(Protocol):
    """A model, and the modules in it that are sharded, checkpointed and compiled one by one."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """In the order of forward."""


@dataclass(frozen=True, kw_only=True)
class ModelLayers:
    """The layers of a model that isn't a workload of ours."""

    model: nn.Module
    blocks: Sequence[nn.Module]


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """The model's repeated modules: those of the class that holds most of its parameters.

    Counted are modules with a sibling of their class in a ModuleList, a ModuleDict or a Sequential,
    so that it is a transformer's blocks and neither what is inside of them nor its encoder and
    decoder. If these have blocks of their own classes, the larger one's are found. Empty if nothing
    is repeated.
    """
    held: defaultdict[type[nn.Module], int] = defaultdict(int)
    for parent in filter(_is_container, model.modules()):
        for kind, children in _siblings(parent).items():
            held[kind] += sum(_size(child) for child in children) if len(children) > 1 else 0
    # On a tie the outer class, which comes first.
    best = max(held, key=lambda kind: held[kind], default=None)
    return [] if best is None or not held[best] else _outermost(model, best)


def _is_container(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential)


def _siblings(parent: nn.Module) -> dict[type[nn.Module], list[nn.Module]]:
    found: defaultdict[type[nn.Module], list[nn.Module]] = defaultdict(list)
    for child in parent.children():
        found[type(child)].append(child)
    return found


def _outermost(module: nn.Module, kind: type[nn.Module]) -> list[nn.Module]:
    if type(module) is kind:
        return [module]
    found = [block for child in module.children() for block in _outermost(child, kind)]
    # A module that is used twice is one block.
    return list(dict.fromkeys(found))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
