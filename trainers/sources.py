"""Builds what a workload's name stands for: a preset, a user's function, a library's model."""

import importlib
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from autotune.errors import FieldError, UserError, closest
from autotune.model import PRESETS, preset
from autotune.trainers.layers import find_blocks
from autotune.trainers.workload import Context, Workload, transformer_workload

LIBRARIES = {"hf": "transformers", "torchvision": "torchvision"}
"""What stands before the colon for models of these libraries, and the module to import."""
DTYPES = (torch.float32, torch.bfloat16)


def build(name: str, folder: str, context: Context) -> Workload:
    """The workload called `name`, checked and with its blocks found.

    `folder` is where a user's module is imported from. Raises FieldError for a name that stands for
    nothing and a function that doesn't return a workload, and what the function itself raises.
    """
    if name in PRESETS:
        return transformer_workload(PRESETS[name], context.seed, context.device)
    torch.manual_seed(context.seed)
    workload = _check(name, builder(name, folder)(context), context)
    return replace(workload, blocks=workload.blocks or find_blocks(workload.model))


def builder(name: str, folder: str = "") -> Callable[[Context], object]:
    """The function that `name` stands for. Raises FieldError, and what importing it raises."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        preset(name)  # says which there are
    library = LIBRARIES.get(module_name)
    if library is not None:
        _require(name, library)
        models = importlib.import_module(f"autotune.trainers.{module_name}_models")
        return lambda context: models.build(attribute, context)
    return _function(name, import_user_module(module_name, folder), attribute)


def import_user_module(name: str, folder: str) -> Any:
    """The module, found in `folder` first, like a script's neighbours."""
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # One that the user's module imports is the user's to mend, and shown as its error.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise FieldError(
            "--workload", name, "is no module that can be imported here",
            hint=f"run autotune where {name.replace('.', '/')}.py lies, or install it",
        ) from None  # fmt: skip


def _function(name: str, module: Any, attribute: str) -> Callable[[Context], object]:
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    near = closest(attribute, [n for n in vars(module) if callable(getattr(module, n))])
    rule = f"names no function of {module.__name__}" + (f"; did you mean {near!r}?" if near else "")
    raise FieldError("--workload", name, rule)


def _require(name: str, library: str) -> None:
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise FieldError(
            "--workload", name, f"needs {library}, which is not installed",
            hint=f"pip install {library}",
        ) from None  # fmt: skip


def _check(name: str, workload: object, context: Context) -> Workload:
    """`workload`, if a trial can train it. Raises UserError."""
    if not isinstance(workload, Workload):
        raise UserError(
            f"{name} returned {type(workload).__name__}, and has to return autotune.Workload"
        )
    model: object = workload.model  # whatever the types say, a person wrote it
    if not isinstance(model, nn.Module):
        raise FieldError(f"{name}: model", type(model).__name__, "has to be a torch.nn.Module")
    for field in ("batch", "loss", "optimizer"):
        if not callable(getattr(workload, field)):
            kind = type(getattr(workload, field)).__name__
            raise FieldError(f"{name}: {field}", kind, "has to be a function")
    narrow = {p.dtype for p in workload.model.parameters()} - {torch.float32}
    if any(dtype.is_floating_point for dtype in narrow):
        raise UserError(
            f"{name}: the model has parameters in {', '.join(sorted(map(str, narrow)))}, and "
            "trials train float32 ones",
            hint="leave the model in float32; dtype= is the format of matrix products",
        )
    elsewhere = {str(p.device) for p in workload.model.parameters() if p.device != context.device}
    if elsewhere:
        raise UserError(
            f"{name}: the model has parameters on {', '.join(sorted(elsewhere))}, and the trial is "
            f"on {context.device}",
            hint="make it on context.device: model.to(context.device)",
        )
    if not any(p.requires_grad for p in workload.model.parameters()):
        raise UserError(f"{name}: the model has no parameters to train")
    if workload.dtype is not None and workload.dtype not in DTYPES:
        raise FieldError(f"{name}: dtype", workload.dtype, "can't be used", alternatives=DTYPES)
    _check_blocks(name, workload)
    _check_batch(name, workload.global_batch)
    return workload


def _check_blocks(name: str, workload: Workload) -> None:
    own = set(workload.model.modules()) - {workload.model}
    if not own.issuperset(workload.blocks):
        raise UserError(f"{name}: blocks has modules that are not inside of the model")


def _check_batch(name: str, batch: object) -> None:
    if batch is None:
        return
    if not isinstance(batch, int) or not 1 <= batch < math.inf:
        raise FieldError(f"{name}: global_batch", batch, "has to be a positive whole number")
