"""YAML text as nodes, with what is never accepted stopped before it costs anything.

PyYAML has two parsers: libyaml, where it was built with it, and one in Python, which takes ten
times as long. They read texts of plain ASCII alike, and others not always: tabs, question marks in
braces, directives, marks of documents, exotic line ends. So libyaml reads the former only, and what
it refuses is read again, so that a file has one meaning, and its mistakes one text, everywhere.
"""

import re
from typing import NoReturn

import yaml
from yaml.composer import Composer

from autotune.errors import UserError

try:
    from yaml import CSafeLoader as _WithLibyaml
except ImportError:  # PyYAML was built without it
    from yaml import SafeLoader as _WithLibyaml  # type: ignore[assignment]

MAX_DEPTH = 16

_READ_ALIKE = re.compile(
    r"""(?!%|---|\.\.\.)
    (?: [ -=@-{}~]
      | [|>](?![-+0-9]*\#)   # a comment right after a block's sign
      | \n(?!%|---|\.\.\.)
    )*""",
    re.VERBOSE,
)


class _Strict(Composer):
    """Composes nodes; stops at aliases, tags and depth."""

    _name = ""
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, "aliases (*name) are not accepted; write the value out")
        if getattr(event, "tag", None) is not None:
            self._refuse(event, "tags (!name) are not accepted; put text in quotes")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(event, f"is nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _refuse(self, event: yaml.Event, rule: str) -> NoReturn:
        line = event.start_mark.line + 1 if event.start_mark else 1
        raise UserError(f"{self._name}:{line}: {rule}")


class _Python(_Strict, yaml.SafeLoader):
    """Python's parser."""

    def __init__(self, text: str, name: str) -> None:
        yaml.SafeLoader.__init__(self, text)
        self._name = name


class _Libyaml(_Strict, _WithLibyaml):
    """libyaml's parser; Python's where there is none."""

    def __init__(self, text: str) -> None:
        _WithLibyaml.__init__(self, text)
        Composer.__init__(self)


def compose(text: str, name: str) -> yaml.Node | None:
    """The node of the one document of `text`, if any. Raises UserError with `name` and a line."""
    if _READ_ALIKE.fullmatch(text) and (node := _by_libyaml(text)):
        return node
    return _by_python(text, name)


def _by_libyaml(text: str) -> yaml.Node | None:
    """None if it refuses the text."""
    try:
        return _Libyaml(text).get_single_node()
    except (UserError, yaml.YAMLError, ValueError, OverflowError):
        return None


def _by_python(text: str, name: str) -> yaml.Node | None:
    try:
        return _Python(text, name).get_single_node()
    except UserError:
        raise
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{name}:{line}: is not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{name}:{line}: is not valid YAML: holds the character U+{error.character:04X}"
        ) from None
    except (ValueError, OverflowError) as error:  # an escape or a directive with a huge number
        raise UserError(f"{name}: is not valid YAML: {error}") from None
