"""What each node of a cluster is, asked of the node itself before any is reserved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from autotune.executors.host import describe_machine
from autotune.model import Machine

LIMIT_S = 60.0
"""For a worker to start on each node, and to get the user's folder there."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Of one node."""

    machine: Machine | None = None
    fault: str = ""
    """Why nothing is known of it, as a clause."""


def survey(gpus: Mapping[str, int]) -> dict[str, Answer]:
    """By the nodes' ids; `gpus` are how many of each node's Ray may give away."""
    refs = {node: _ask(node, count) for node, count in gpus.items()}
    ray.wait(list(refs.values()), num_returns=len(refs), timeout=LIMIT_S)
    return {node: _answer(ref) for node, ref in refs.items()}


def _ask(node: str, gpus: int) -> Any:
    place = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(_machine).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
    return task.remote(gpus)


def _machine(gpus: int) -> Machine:
    """With the GPUs that a trial would have, which Ray hides from what asks for none."""
    visible = ",".join(str(index) for index in range(gpus))
    return describe_machine(environment={"CUDA_VISIBLE_DEVICES": visible})


def _answer(ref: Any) -> Answer:
    try:
        return Answer(machine=ray.get(ref, timeout=0))
    except (RayError, ConnectionError, TimeoutError) as error:
        cause = getattr(error, "cause", None) or error
        lines = [line for line in str(cause).splitlines() if line.strip()]
        return Answer(fault=f"it doesn't say what it is: {lines[-1] if lines else cause!r}")
