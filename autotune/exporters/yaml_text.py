"""YAML that every reader understands alike, and that people review."""

from typing import Any

import yaml


class Quoted(str):
    """Text that is written in quotes, so that no reader takes `on` or `0x10` for anything else."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_quoted(dumper: yaml.SafeDumper, value: Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style='"')


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # The emitter folds U+0085 and other breaks into blanks outside of double quotes.
    style = None if value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(Quoted, _represent_quoted)
_Dumper.add_representer(str, _represent_text)


def dump(document: dict[str, Any]) -> str:
    """The YAML of `document`, in its order, every text on one line."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31
    )
    return text
