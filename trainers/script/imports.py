"""Imports what a script will import, in the process that its ranks are forked from.

Installed packages alone: what lies beside the script is the script's own business, and may change.
"""

import ast
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def import_for(file: str) -> None:
    """What fails here fails in the ranks again, where it is told."""
    with suppress(OSError, SyntaxError, ValueError):
        for statement in installed_imports(ast.parse(Path(file).read_bytes())):
            with suppress(Exception):
                code = compile(ast.Module([statement], []), file, "exec")
                exec(code, {})  # noqa: S102 - an import and nothing else


def installed_imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements at the top of a script that import installed packages."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            names = [alias for alias in statement.names if is_installed(alias.name)]
            if names:
                yield ast.fix_missing_locations(ast.Import(names))
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            yield from [statement] * is_installed(statement.module or "")


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
