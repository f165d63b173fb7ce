"""`--to env`: a file to source before a launch."""

import shlex
from collections.abc import Iterable, Iterator

from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.variables import (
    heading,
    own_variables,
    own_variables_comment,
    unused_variables,
)
from autotune.model import BestConfiguration


class EnvExporter(Exporter):
    """`export NAME=value` lines for sh, bash, dash and zsh."""

    name = "env"
    help = "a file to source from sh or bash: every variable as an export line"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        return "".join(f"{line}\n" for line in _lines(best))


def _lines(best: BestConfiguration) -> Iterator[str]:
    yield from heading(best, "Source it before a launch: `. ./FILE`")
    yield from _exports(best.environment.items())
    yield ""
    yield from own_variables_comment()
    yield from _exports(own_variables(best).items())
    if unused := unused_variables(best):
        yield f"unset {' '.join(unused)}"


def _exports(variables: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in variables:
        yield f"export {name}={shlex.quote(value)}"
