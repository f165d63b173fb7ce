"""Plants faults into the real rank program of every Python that has this folder on its path.

AUTOTUNE_TEST_CHAOS is a JSON object: `trials` maps a trial's number, or `*`, to a fault, `values`
maps `SETTING=VALUE` to one. With `step_s`, which maps `SETTING=VALUE` to seconds, steps seem to
take the sum of these, and a percent more or less from trial to trial: a busy machine changes
nothing then. A fault is a function below; it is called after each optimizer step, on every rank,
and most of them act once the second one is done.
"""

import json
import os
import random
import signal
import subprocess
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from time import sleep
from types import ModuleType, SimpleNamespace

AT_STEP = 2
CLOCK = SimpleNamespace(now_s=0.0)


class _Hook(MetaPathFinder):
    """Finds some modules as usual, and has them patched once they were executed."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        patch = PATCHES.get(name)
        if patch is None:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module
        return spec


def _patch_clock(module: ModuleType) -> None:
    if "step_s" in _chaos():
        module.time = SimpleNamespace(perf_counter=lambda: CLOCK.now_s)


def _chaos() -> dict[str, dict[str, object]]:
    return json.loads(os.environ["AUTOTUNE_TEST_CHAOS"])


def _patch_steps(module: ModuleType) -> None:
    step = module.Trainer.step

    def planted(trainer: object) -> object:
        chaos = _chaos()
        mine = [f"{name}={value}" for name, value in vars(trainer.settings).items()]
        # The trial's number is in its spec's path; a forked rank has it since it was forked.
        number = str(int(Path(sys.argv[-1]).parent.name.removeprefix("trial-")))
        faults = [chaos.get("trials", {}).get(key) for key in (number, "*")]
        faults += [chaos.get("values", {}).get(key) for key in mine]
        luck = random.Random(number).gauss(1, 0.01)
        CLOCK.now_s += luck * sum(chaos.get("step_s", {}).get(key, 0) for key in mine)
        result = step(trainer)
        for fault in filter(None, faults):
            result = globals()[fault](trainer, result)
        return result

    module.Trainer.step = planted


def _here(trainer: object, rank: int) -> bool:
    return trainer.steps_done == AT_STEP and os.environ["RANK"] == str(rank)


def killed(trainer: object, result: object) -> object:
    """As by `kill -9`: the kernel doesn't tell who sent it."""
    if _here(trainer, 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def terminated(trainer: object, result: object) -> object:
    if _here(trainer, 0):
        os.kill(os.getpid(), signal.SIGTERM)
    return result


def orphaned(trainer: object, result: object) -> object:
    """What ranks are forked from is killed."""
    if _here(trainer, 1) and os.getppid() > 1:
        os.kill(os.getppid(), signal.SIGKILL)
        sleep(5)
    return result


def disk_full(trainer: object, result: object) -> object:
    if _here(trainer, 1):
        raise OSError(28, "No space left on device")
    return result


def port_taken(trainer: object, result: object) -> object:
    if _here(trainer, 0):
        raise RuntimeError("code: -98, name: EADDRINUSE, message: address already in use")
    return result


def crash(trainer: object, result: object) -> object:
    """With children that would outlive it, one of them deaf to TERM."""
    if _here(trainer, 1):
        subprocess.Popen(["sleep", "600"])
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600"], process_group=0)
        os.kill(os.getpid(), signal.SIGSEGV)
    return result


def out_of_memory(trainer: object, result: object) -> object:
    import torch

    if _here(trainer, 1):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return result


def leave(trainer: object, result: object) -> object:
    """Exit 0 without a result."""
    if _here(trainer, 0):
        os._exit(0)
    return result


def garbage(trainer: object, result: object) -> object:
    """What isn't a message, in a message's place."""
    if _here(trainer, 1):
        os.write(int(os.environ["AUTOTUNE_CHANNEL_FD"]), b'{"v": 1, "type": "finished"}\n\xff\n')
    return result


def nan(trainer: object, result: object) -> object:
    """From the second step on, on every rank."""
    loss, norm = result
    return (loss * float("nan"), norm) if trainer.steps_done >= AT_STEP else result


def inf_on_rank_1(trainer: object, result: object) -> object:
    """In one step only, of one rank only."""
    loss, norm = result
    return (loss + float("inf"), norm) if _here(trainer, 1) else result


PATCHES = {
    "autotune.trainers.step": _patch_steps,
    "autotune.trainers.measure": _patch_clock,
}
if "AUTOTUNE_TEST_CHAOS" in os.environ:
    sys.meta_path.insert(0, _Hook())
