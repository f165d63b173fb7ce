"""YAML as data with line numbers, read so that nothing is guessed.

Stricter than YAML: one document of mappings, lists and scalars; no tags, no aliases (so a small
file can't unfold into a large one), no key twice, nothing deep. Words that YAML 1.1 and 1.2 read
in different ways (`on`, `0x10`, `010`, `2:30`) are refused unless they are in quotes.
"""

import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from autotune.errors import FieldError, UserError, quoted
from autotune.yaml_nodes import compose

MAX_BYTES = 256 * 1024
"""Far above any real document; the slower parser takes about a second for it."""
MAX_MISTAKES = 50
"""Shown at once; a file with more is of another kind."""

_TAG = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Source:
    """The content of a YAML file and where each part of it stands."""

    name: str
    data: Any
    lines: dict[str, int] = field(default_factory=dict)
    """Dotted path to line, from 1."""
    refused: Sequence[FieldError] = ()
    """Keys and values that are written in a way that isn't accepted; see `parse_yaml`."""

    def error(self, error: FieldError) -> FieldError:
        """The same error with the file and the line in front of its field."""
        return FieldError(
            f"{self.name}:{self.line_of(error.field)}: {error.field}",
            error.value,
            error.rule,
            alternatives=error.alternatives,
            hint=error.hint,
        )

    def line_of(self, path: str) -> int:
        """The line of `path`, or of the nearest thing around it that the file has."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, 1)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The UTF-8 text of the file at `path`. Raises UserError."""
    if _never_ends(path):
        raise UserError(f"{path}: is not a regular file")
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text: byte {error.start} can't be read") from None
    except (OSError, ValueError) as error:
        cause = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"{path}: can't be read: {cause}") from None
    if len(content) > max_bytes:
        raise UserError(f"{path}: is larger than the {max_bytes} bytes that are accepted")
    return text


def _never_ends(path: Path) -> bool:
    """Whether reading it may take for ever: a named pipe that nobody writes to, a device.

    What the shell makes of `<(command)`, and stdin, have somebody at the other end.
    """
    is_shells = str(path.parent) in ("/dev/fd", "/proc/self/fd") or str(path) == "/dev/stdin"
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # reading it will tell
        return False
    return not (is_shells or stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_source(path: Path) -> Source:
    """The document in the file at `path`, by `parse_yaml`. Raises UserError."""
    return parse_yaml(read_text(path), str(path))


def raise_mistakes(source: Source, found: Sequence[FieldError]) -> None:
    """Raise one UserError that lists what was `found` in `source` and refused in it, if anything.

    They come in the order of their lines. What is found in a refused part follows from that only.
    """
    refused = {error.field for error in source.refused}
    errors = [*source.refused, *(error for error in found if error.field not in refused)]
    errors.sort(key=lambda error: source.line_of(error.field))
    mistakes = [source.error(error) for error in errors]
    if len(mistakes) > 1:
        lines = [f"{source.name} has {len(mistakes)} mistakes:"]
        for mistake in mistakes[:MAX_MISTAKES]:
            lines.append(f"  {mistake}")
            lines += [f"    hint: {mistake.hint}"] if mistake.hint else []
        lines += ["  …"] if len(mistakes) > MAX_MISTAKES else []
        raise UserError("\n".join(lines))
    if mistakes:
        raise UserError(str(mistakes[0]), hint=mistakes[0].hint)


def read_yaml(text: str, name: str) -> Source:
    """`text` as plain data. Raises UserError with `name` and the line of what isn't accepted."""
    source = parse_yaml(text, name)
    raise_mistakes(source, [])
    return source


def parse_yaml(text: str, name: str) -> Source:
    """As `read_yaml`, but what is only written wrongly is left in `refused`, not raised.

    Whoever finds more mistakes in the document passes them to `raise_mistakes`.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise UserError(f"{name}: {size} bytes is more than the {MAX_BYTES} that are accepted")
    node = compose(text, name)
    if node is None:
        raise UserError(f"{name}: is empty")
    builder = _Builder(name)
    return Source(name, builder.build(node, ""), builder.lines, builder.refused)


class _Builder:
    """Turns nodes into data, noting the line of every path and what is refused."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: dict[str, int] = {}
        self.refused: list[FieldError] = []

    def build(self, node: yaml.Node, path: str) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _items(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path)
            inner = f"{path}.{key}" if path else key
            if key in seen:
                rule = f"stands already in line {seen[key]}"
                self.refused.append(FieldError(inner, key, rule))
            seen[key] = self.lines[inner] = line
            yield key, self.build(value_node, inner)

    def _key(self, node: yaml.Node, path: str) -> str:
        inner = f"{path}.{node.value}" if path else ""
        self.lines.setdefault(inner, node.start_mark.line + 1)
        value = self._scalar(node, inner) if isinstance(node, yaml.ScalarNode) else node.value
        if not isinstance(value, str):
            self._refuse(node, inner, value, "has to be text, as every key", "put it in quotes")
        return str(node.value)

    def _scalar(self, node: yaml.Node, path: str) -> Any:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "int" and _DECIMAL.fullmatch(text):
            return int(text)
        if kind == "float" and _FLOAT.fullmatch(text):
            return float(text)
        if kind in ("bool", "int", "float", "merge", "value"):
            self._refuse(
                node, path, text, "is read differently by different YAML readers",
                "write true, false or a decimal number, or put it in quotes to mean text",
            )  # fmt: skip
        return text

    def _refuse(self, node: yaml.Node, path: str, value: object, rule: str, hint: str) -> None:
        if not path:
            place = f"{self._name}:{node.start_mark.line + 1}"
            raise UserError(f"{place}: {quoted(value)} {rule}", hint=hint)
        self.refused.append(FieldError(path, value, rule, hint=hint))
