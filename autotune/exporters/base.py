"""What every exporter promises."""

from abc import ABC, abstractmethod

from autotune.model import BestConfiguration


class Exporter(ABC):
    """Writes a best configuration in the form of another tool."""

    name: str
    """As in `--to NAME`."""
    help: str
    """One line for the command line's help."""

    @abstractmethod
    def export(self, best: BestConfiguration) -> str:
        """The complete text of the file. Raises UserError for what the target can't express."""
