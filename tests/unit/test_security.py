"""Nothing that is read is ever run: no pickle, no eval, no shell, in any module of the product."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("autotune", "storage", "trainers", "scripts", "benchmarks")
MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle",
    "code", "codeop", "pty", "commands", "xmlrpc", "telnetlib",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "input",
    "os.system", "os.popen", "os.execvpe", "subprocess.getoutput", "subprocess.getstatusoutput",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "torch.load",
    "torch.hub.load", "torch.jit.load", "np.load", "numpy.load", "tempfile.mktemp",
}  # fmt: skip
WITH = {"shell", "allow_pickle"}
"""Arguments that mustn't be given."""


def findings(source: str, name: str) -> Iterator[str]:
    """`NAME:LINE: WHAT` for each thing in `source` that could run data."""
    for node in ast.walk(ast.parse(source)):
        for what in _found(node):
            yield f"{name}:{getattr(node, 'lineno', 0)}: {what}"


def _found(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name.partition(".")[0] in MODULES)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
        yield node.module or ""
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name in CALLS:
            yield name
        for argument in node.keywords:
            if argument.arg in WITH and ast.unparse(argument.value) != "False":
                yield f"{name}({argument.arg}=…)"


def modules() -> list[Path]:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted({path.resolve() for path in files})


def test_no_module_can_run_what_it_reads() -> None:
    paths = modules()
    assert len(paths) > 200
    found = [
        line
        for path in paths
        for line in findings(path.read_text("utf-8"), str(path.relative_to(ROOT)))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "eval(text)",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_check_sees_them(source: str) -> None:
    assert list(findings(source, "x.py"))


def test_the_lint_rules_on_security_are_on() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    ignored = {rule for rule in lint["ignore"] if rule.startswith("S")}
    # Random numbers of searches, and processes started without a shell.
    assert ignored == {"S311", "S603", "S607"}
    files = lint["per-file-ignores"]
    assert {p: [r for r in rules if r.startswith("S")] for p, rules in files.items()} == {
        "autotune/diagnosis/families/*": ["S108"],
        "tests/**": ["S"],
    }
