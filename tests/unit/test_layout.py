"""The shape of the repository: links, names that may not be imported, versions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import autotune

ROOT = Path(__file__).parents[2]
LINKED = ("storage", "trainers", "search_spaces")
CODE = ("autotune", "storage", "trainers", "scripts", "tests", "benchmarks")


@pytest.mark.parametrize("name", LINKED)
def test_the_package_reaches_the_top_folder(name: str) -> None:
    link = ROOT / "autotune" / name
    assert link.is_symlink(), (
        f"autotune/{name} isn't a link to ../{name}: this checkout was made without links. "
        "Repair it: git config core.symlinks true && git checkout -- autotune"
    )
    assert link.readlink() == Path("..", name), "the link has to be relative, to work in any clone"
    assert link.resolve() == (ROOT / name).resolve()


def top_level_imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_nobody_imports_the_top_folders_by_their_own_names() -> None:
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 20
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := sorted(set(LINKED) & set(top_level_imports(path.read_text("utf-8")))))
    }
    assert wrong == {}


def test_the_check_sees_such_imports() -> None:
    text = "import storage.base\nfrom trainers import x\nfrom . import search_spaces\nimport os"
    assert sorted(top_level_imports(text)) == ["os", "storage", "trainers"]


def test_the_changelog_starts_with_the_version_of_the_code() -> None:
    versions = re.findall(
        r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert versions[0] == autotune.__version__


def test_constraints_pin_every_direct_dependency() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    pinned = set(re.findall(r"^([a-z0-9-]+)==\S+$", text, re.MULTILINE))
    assert "+" not in text
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    blocks = re.findall(r"^(?:dependencies|dev) = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    needed = re.findall(r'^    "([A-Za-z0-9-]+)', "".join(blocks), re.MULTILINE)
    assert len(needed) > 15
    assert {name.lower() for name in needed} - pinned == set()
