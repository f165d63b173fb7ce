"""Builds a user's workload once, on the CPU, and tells what it is.

    python -m autotune.trainers.describe FD NAME FOLDER     # ends with the process that started it

Writes one JSON object to the descriptor FD: {"workload": an encoded UserWorkload}, or {"error":
what is wrong, "hint": what to do, "traceback": of the user's code, if it is in there}.
"""

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from autotune.errors import AutotuneError
from autotune.model import UserWorkload, encode
from autotune.model.user_workload import digest_of
from autotune.trainers import process
from autotune.trainers.sources import LIBRARIES, build, builder
from autotune.trainers.user_code import is_users, user_line
from autotune.trainers.workload import Context


def main(arguments: Sequence[str]) -> None:
    """Describe the workload, or say why it can't be."""
    number, name, folder = arguments
    process.die_with_parent()
    try:
        answer: dict[str, object] = {"workload": encode(describe(name, folder))}
    except AutotuneError as error:
        answer = {"error": str(error), "hint": error.hint, "traceback": ""}
    except (Exception, SystemExit) as error:
        answer = {"error": _said(name, error), "hint": "", "traceback": _own_traceback(error)}
    with os.fdopen(int(number), "w", encoding="utf-8") as channel:
        json.dump(answer, channel)
    # Threads that the user's module has started are not waited for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def describe(name: str, folder: str) -> UserWorkload:
    """What `name`, a function's or a library's, builds. Raises what building it raises."""
    function = builder(name, folder)
    workload = build(name, folder, Context(device=torch.device("cpu"), seed=0))
    module = name.partition(":")[0]
    file = "" if module in LIBRARIES else _file(module, function)
    return UserWorkload(
        name=name,
        parameters=sum(p.numel() for p in workload.model.parameters()),
        blocks=len(workload.blocks),
        block=type(workload.blocks[0]).__name__ if workload.blocks else "",
        global_batch=workload.global_batch,
        module=LIBRARIES.get(module, module),
        folder=folder if file else "",
        file=file,
        digest=digest_of(Path(file)) if file else "",
    )


def _file(module: str, function: Callable[..., object]) -> str:
    """Where the function is written, or else its module."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        path = None
    path = path or getattr(sys.modules[module], "__file__", None)
    return str(Path(path).absolute()) if path else ""


def _said(name: str, error: BaseException) -> str:
    line = user_line(error)
    return f"{name} failed: {type(error).__name__}: {error}" + (f" ({line})" if line else "")


def _own_traceback(error: BaseException) -> str:
    """From the user's first line on: how autotune came to it tells them nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if is_users(frame.filename)), len(frames))
    return "".join(traceback.format_list(frames[first:]))


if __name__ == "__main__":
    main(sys.argv[1:])
