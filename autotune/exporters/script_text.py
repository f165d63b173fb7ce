"""The user's script in exports: the command that its trials stood for."""

from collections.abc import Iterator

from autotune.exporters.text import comment
from autotune.model import BestConfiguration


def script_command(best: BestConfiguration) -> str:
    """The script with its arguments, for a shell; empty if the workload is none."""
    script = best.evidence.script
    if script is None:
        return ""
    return script.command(script.rendered(best.settings, best.target.ranks))


def script_comment(best: BestConfiguration) -> Iterator[str]:
    """A comment line with it; nothing without a script."""
    if command := script_command(best):
        yield comment(f"Measured with: {command}")


def script_line(best: BestConfiguration, usage: str) -> Iterator[str]:
    """Shell lines that take the script from the line's own words, else the one measured."""
    if command := script_command(best):
        yield comment("Without words of its own it starts what was measured.")
        yield f'[ "$#" -gt 0 ] || set -- {command}'
    else:
        yield f': "${{1:?name the training script: {usage}}}"'
