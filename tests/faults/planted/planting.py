"""For the modules that plant faults: patch a module of the product once it is imported."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class _Hook(MetaPathFinder):
    """Finds one module as usual, and has it patched right after it was executed."""

    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.patch = patch

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.patch(module)

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name: str, patch: Callable[[ModuleType], None]) -> None:
    """Call `patch` with module `name` as soon as that has been executed."""
    sys.meta_path.insert(0, _Hook(name, patch))


def faults(prefix: str, variable: str = "AUTOTUNE_TEST_FAULTS") -> list[str]:
    """This rank's faults that begin with `prefix`, without it, by its trial's number.

    They are in a JSON object, `{"3": "step_sleep_2,leave_sleep", "*": "for all other trials"}`.
    """
    planted = json.loads(os.environ.get(variable, "{}"))
    number = str(int(Path(sys.argv[-1]).parent.name.removeprefix("trial-")))
    names = planted.get(number, planted.get("*", "")).split(",")
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
