"""Imports what a script will import, in the process that its ranks are forked from.

Installed packages alone: what lies beside the script is the script's own business, and may change.
"""

import ast
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def import_for(file: str) -> None:
    """What fails here fails in the ranks again, where it is told."""
    with suppress(OSError, SyntaxError, ValueError):
        for module, names in installed_imports(ast.parse(Path(file).read_bytes())):
            with suppress(Exception):
                found = importlib.import_module(module)
                for name in names:
                    getattr(found, name)  # which many a package imports only now


def installed_imports(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The installed modules that a script imports at its top, and what it takes of each."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from ((one.name, []) for one in statement.names if is_installed(one.name))
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names = [one.name for one in statement.names if one.name != "*"]
            yield from [(statement.module, names)] * is_installed(statement.module)


def is_installed(name: str) -> bool:
    """Whether a module is a package's, and neither the standard library's nor the user's."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "autotune":
        return False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    places = [sysconfig.get_path(key) for key in ("purelib", "platlib")]
    origin = spec.origin if spec is not None else None
    return origin is not None and any(Path(origin).is_relative_to(place) for place in places)
