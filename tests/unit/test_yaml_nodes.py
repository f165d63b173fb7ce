"""Two parsers of YAML, and one meaning for each file."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from autotune import yaml_nodes
from autotune.errors import UserError
from autotune.yaml_reader import parse_yaml
from tests.fuzz.mutate import damaged
from tests.fuzz.targets import TARGETS
from tests.unit.test_fuzz import QUIET

SHIPPED = sorted((Path(__file__).parents[2] / "search_spaces").rglob("*.yaml"))
FORMS = b"""a: 1
'b': [x, {y: -1.5, "z\\n": }]
c: >-
  folded
  text
d:
- |
  text
- - 2
  - # e
"""
SEEDS = (FORMS, *(seed for name in ("yaml", "best") for seed in TARGETS[name].seeds))


def everything_read(text: str) -> object:
    """What `parse_yaml` makes of `text`: data, lines and refusals, or an error."""
    try:
        source = parse_yaml(text, "x.yaml")
    except UserError as error:
        return str(error)
    refused = [(str(error), error.hint) for error in source.refused]
    return repr(source.data), source.lines, refused


@pytest.fixture
def libyaml_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Whether a text is read by libyaml."""

    def refuse(*_: object) -> None:
        raise AssertionError

    def reads(text: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(yaml_nodes, "_by_python", refuse)
            try:
                parse_yaml(text, "x.yaml")
            except AssertionError:
                return False
        return True

    if not yaml.__with_libyaml__:
        pytest.skip("PyYAML has no libyaml here")
    return reads


def by_python_alone(text: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_nodes, "_by_libyaml", lambda text: None)
        return everything_read(text)


@settings(max_examples=80, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(damaged(SEEDS))
def test_both_read_damaged_documents_alike(data: bytes) -> None:
    text = data.decode("utf-8", errors="surrogateescape")
    assert everything_read(text) == by_python_alone(text)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(damaged((FORMS,)))
def test_both_read_many_damaged_documents_alike(data: bytes) -> None:
    text = data.decode("utf-8", errors="surrogateescape")
    assert everything_read(text) == by_python_alone(text)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files_are_read_by_libyaml(
    path: Path, libyaml_reads: Callable[[str], bool]
) -> None:
    assert libyaml_reads(path.read_text())
    assert everything_read(path.read_text()) == by_python_alone(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "a: b\tc\n", "a: {b?: c}\n", "%YAML 1.2\n---\na: b\n", "a: b\n\ufeff", "---",
        "a: >-#\n b\n", "a: b\n...\nc: d", "a: b\rc: d\n", "a: \u2028 b\n",
    ],
)  # fmt: skip
def test_what_they_read_differently_python_reads(
    text: str, libyaml_reads: Callable[[str], bool]
) -> None:
    assert not libyaml_reads(text)
    assert everything_read(text) == by_python_alone(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\nb: *c\n", "x.yaml:2: aliases (*name)"),
        ("a:\n- !x 1\n", "x.yaml:2: tags (!name)"),
        ("[" * 17, "x.yaml:1: is nested deeper than 16 levels"),
        ("a: 1\nb: c: d\n", "x.yaml:2: is not valid YAML: mapping values are not allowed here"),
    ],
)
def test_mistakes_have_one_text(text: str, error: str) -> None:
    read = everything_read(text)
    assert isinstance(read, str)
    assert read.startswith(error)


def test_where_there_is_no_libyaml_python_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FORMS.decode()
    expected = everything_read(text)
    with monkeypatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        importlib.reload(yaml_nodes)
        patch.setattr("autotune.yaml_reader.compose", yaml_nodes.compose)
        assert everything_read(text) == expected
    importlib.reload(yaml_nodes)
