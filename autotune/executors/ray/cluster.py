"""A connection to a Ray cluster, and which of its nodes a study can have."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayError

from autotune.errors import ExecutorError, FieldError, UserError

AUTO = "auto"
_ACCELERATOR = "accelerator_type:"
_SLIVER = 0.001
"""Of a resource that only says where a bundle has to be."""


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """Nodes that Ray has no difference between."""

    gpus: int
    accelerator: str
    """As Ray names it, such as A100; empty without GPUs."""
    cpus: int

    @property
    def bundle(self) -> dict[str, float]:
        """All of a node, so that nothing else runs beside a trial."""
        resources: dict[str, float] = {"CPU": self.cpus, "GPU": self.gpus}
        if self.accelerator:
            resources[_ACCELERATOR + self.accelerator] = _SLIVER
        return {name: amount for name, amount in resources.items() if amount}

    def __str__(self) -> str:
        gpus = f"{self.gpus} {self.accelerator or 'unnamed'} GPUs and " if self.gpus else ""
        return f"{gpus}{self.cpus} CPUs"


@contextmanager
def connected(address: str, *, folder: str) -> Iterator[str]:
    """Within, Ray is connected; gives the dashboard's address, or nothing if there is none.

    `folder` is the user's code, for nodes that don't see it; empty if there is none. Raises
    ExecutorError if there is no cluster.
    """
    if ray.is_initialized():
        yield ""
        return
    try:
        context = ray.init(
            address=address,
            namespace="autotune",
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env=_runtime_env(folder),
        )
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ExecutorError(
            f"--address: no Ray cluster answers at {address!r}: {first}",
            hint="start one with: ray start --head; RAY_AUTH_MODE and the token have to be its own",
        ) from None
    _hush()
    try:
        yield _dashboard(context)
    finally:
        ray.shutdown()


def find_kind(nodes: int) -> NodeKind:
    """Of the nodes to take. Raises UserError if the cluster hasn't as many that are alike."""
    living = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    with_gpus = [resources for resources in living if resources.get("GPU")]
    usable = with_gpus or [resources for resources in living if resources.get("CPU")]
    kinds = Counter(_kind(resources) for resources in usable)
    if len(usable) < nodes:
        raise FieldError(
            "--nodes",
            nodes,
            f"is more than this cluster has: {len(usable)} node{'s' * (len(usable) != 1)} to train "
            f"on, {len(living)} in all",
            hint="start more nodes, or ask for fewer",
        )
    enough = [kind for kind, count in kinds.items() if count >= nodes]
    if len(enough) != 1:
        found = "; ".join(f"{count} with {kind}" for kind, count in kinds.most_common())
        raise UserError(
            f"--nodes: {nodes} nodes that are alike are needed, and the cluster's differ: {found}",
            hint="results of different machines can't be compared; start as many of one kind",
        )
    return enough[0]


def lanes_of(kind: NodeKind, nodes: int, wanted: int | None) -> int:
    """How many trials of `nodes` nodes of this kind there are nodes for; `wanted`, if it is given.

    Raises FieldError if there are too few for that.
    """
    living = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    count = sum(_kind(resources) == kind for resources in living)
    if wanted is None:
        return max(1, count // nodes)
    if count < nodes * wanted:
        raise FieldError(
            "--parallel-trials",
            wanted,
            f"needs {nodes * wanted} nodes, {nodes} for each, and this cluster has {count} that "
            "are alike",
            hint="start more nodes, or ask for fewer trials at once (auto: as many as fit)",
        )
    return wanted


def free_now() -> str:
    """What of the cluster nobody has reserved, for people."""
    there, free = ray.cluster_resources(), ray.available_resources()
    names = [name for name in ("GPU", "CPU") if there.get(name)]
    return ", ".join(f"{free.get(name, 0):.0f} of {there[name]:.0f} {name}s" for name in names)


def living_nodes() -> str:
    """How many there are, for people."""
    count = sum(node["Alive"] for node in ray.nodes())
    return f"{count} node{'s' * (count != 1)}"


def _kind(resources: Mapping[str, float]) -> NodeKind:
    gpus = int(resources.get("GPU", 0))
    names = [name for name in resources if name.startswith(_ACCELERATOR)]
    accelerator = names[0].removeprefix(_ACCELERATOR) if gpus and names else ""
    return NodeKind(gpus=gpus, accelerator=accelerator, cpus=int(resources.get("CPU", 0)))


def _runtime_env(folder: str) -> dict[str, Any]:
    """The user's code for the nodes, unless the job that this runs in has brought it."""
    in_job = "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ
    return {"working_dir": folder} if folder and not in_job else {}


def _hush() -> None:
    """Keep the cluster's messages off stdout, where results go; Ray's log files have them.

    They come whatever `log_to_driver` says, and Ray has no switch for them.
    """
    worker: Any = import_module("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_args, **_kwargs: None


def _dashboard(context: Any) -> str:
    url = getattr(context, "dashboard_url", "")
    return f"http://{url}" if url else ""
