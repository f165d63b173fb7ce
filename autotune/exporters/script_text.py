"""The user's script in exports: the command that its trials stood for.

As a comment: a file that comes from somebody else is not to decide what is started.
"""

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
