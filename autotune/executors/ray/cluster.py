"""A connection to a Ray cluster, and which of its nodes a study can have."""

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayError

from autotune.errors import ExecutorError
from autotune.executors.ray.choice import Choice, Misfit, Node, check_count, choose
from autotune.executors.ray.kind import NodeKind
from autotune.executors.ray.survey import survey

AUTO = "auto"
ATTEMPTS = 3
ANSWER_S = 10.0
_PASSING = ("Starting Ray client server failed", "ZombieProcess")
"""What a cluster says to `ray://` now and then (Ray 2.60), and no longer when asked again: it has
a process for each client, and looks at others that may just be ending."""
_TOO_LARGE = "exceeds the maximum size"
"""Of a folder, in Ray's message."""


@contextmanager
def connected(address: str, *, folder: str) -> Iterator[str]:
    """Within, Ray is connected; gives the dashboard's address, or nothing if there is none.

    `folder` is the user's code, for nodes that don't see it; empty if there is none. Raises
    ExecutorError if there is no cluster.
    """
    if ray.is_initialized():
        yield ""
        return
    context = _connect(address, folder)
    _hush()
    try:
        yield _dashboard(context)
    finally:
        ray.shutdown()


def _connect(address: str, folder: str) -> Any:
    """What `ray.init` returns. Raises ExecutorError."""
    _check_answers(address, folder)
    for left in range(ATTEMPTS, 0, -1):
        try:
            return _init(address, folder)
        except (ConnectionError, RayError, RuntimeError, ValueError) as error:
            if left == 1 or not any(text in str(error) for text in _PASSING):
                raise _refusal(error, address, folder) from None
    return None


def _check_answers(address: str, folder: str) -> None:
    """Raise ExecutorError if nobody listens at HOST:PORT, for which Ray would wait for minutes."""
    wanted = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    host, _, port = wanted.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise _refusal(error, wanted, folder) from None


def _init(address: str, folder: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters comes as an exception
        return ray.init(
            address=address,
            namespace="autotune",
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env=_runtime_env(folder),
        )


def find_nodes(count: int, misfit: Misfit) -> Choice:
    """The nodes that a study may take, as many as are alike.

    Where there is a choice, each node is asked what it is. Raises UserError if there are too few.
    """
    living = [node for node in ray.nodes() if node["Alive"]]
    with_gpus = [node for node in living if node["Resources"].get("GPU")]
    usable = with_gpus or [node for node in living if node["Resources"].get("CPU")]
    check_count(len(usable), len(living), count)
    found = [
        Node(
            id=node["NodeID"],
            address=node["NodeManagerAddress"],
            kind=NodeKind.of(node["Resources"]),
        )
        for node in usable
    ]
    if len(found) > count or len({node.kind for node in found}) > 1:
        answers = survey({node.id: node.kind.gpus for node in found})
        found = [
            replace(node, machine=answers[node.id].machine, fault=answers[node.id].fault)
            for node in found
        ]
    return choose(found, count, misfit)


def free_now() -> str:
    """What of the cluster nobody has reserved, for people."""
    there, free = ray.cluster_resources(), ray.available_resources()
    names = [name for name in ("GPU", "CPU") if there.get(name)]
    return ", ".join(f"{free.get(name, 0):.0f} of {there[name]:.0f} {name}s" for name in names)


def living_nodes() -> str:
    """How many there are, for people."""
    count = sum(node["Alive"] for node in ray.nodes())
    return f"{count} node{'s' * (count != 1)}"


def _refusal(error: Exception, address: str, folder: str) -> ExecutorError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if found := [line for line in lines if _TOO_LARGE in line]:
        size = found[0].partition("Package size ")[2].partition(". ")[0]
        return ExecutorError(
            f"{folder} can't be sent to the nodes: its size {size}",
            hint="keep data out of it, or name it in .gitignore or .rayignore",
        )
    # The rest may be a traceback of the cluster's, which ends with the reason.
    said = f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") else lines[0]
    return ExecutorError(
        f"--address: no Ray cluster answers at {address!r}: {said}",
        hint="start one with: ray start --head; RAY_AUTH_MODE and the token have to be its own",
    )


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
