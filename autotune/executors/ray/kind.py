"""Kinds of nodes, as Ray has them."""

from collections.abc import Mapping
from dataclasses import dataclass

ACCELERATOR = "accelerator_type:"
NODE_ID = "ray.io/node-id"
"""A label that Ray gives every node."""
_SLIVER = 0.001
"""Of a resource that only says where a bundle has to be."""


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """Nodes that Ray has no difference between."""

    gpus: int
    accelerator: str
    """As Ray names it, such as A100; empty without GPUs."""
    cpus: int
    without: tuple[str, ...] = ()
    """Ids of nodes that are to be left alone."""

    @classmethod
    def of(cls, resources: Mapping[str, float]) -> "NodeKind":
        """By what Ray says that a node has."""
        gpus = int(resources.get("GPU", 0))
        names = [name for name in resources if name.startswith(ACCELERATOR)]
        accelerator = names[0].removeprefix(ACCELERATOR) if gpus and names else ""
        return cls(gpus=gpus, accelerator=accelerator, cpus=int(resources.get("CPU", 0)))

    @property
    def bundle(self) -> dict[str, float]:
        """All of a node, so that nothing else runs beside a trial."""
        resources: dict[str, float] = {"CPU": self.cpus, "GPU": self.gpus}
        if self.accelerator:
            resources[ACCELERATOR + self.accelerator] = _SLIVER
        return {name: amount for name, amount in resources.items() if amount}

    @property
    def labels(self) -> dict[str, str]:
        """What a node's labels have to be."""
        return {NODE_ID: f"!in({','.join(self.without)})"} if self.without else {}

    def __str__(self) -> str:
        gpus = f"{self.gpus} {self.accelerator or 'unnamed'} GPUs and " if self.gpus else ""
        return f"{gpus}{self.cpus} CPU{'s' * (self.cpus != 1)}"
