"""What every exporter promises."""

from abc import ABC, abstractmethod

from autotune.errors import FieldError
from autotune.exporters.asked import ENVIRONMENT, asked
from autotune.model import BestConfiguration, ShardingStrategy


class Exporter(ABC):
    """Writes a best configuration in the form of another tool."""

    name: str
    """As in `--to NAME`."""
    help: str
    """One line for the command line's help."""
    expresses: frozenset[str] | None = None
    """Names of TrainingSettings that the form has a place for, and `environment` if variables are
    among it. None is everything."""
    strategies: frozenset[ShardingStrategy] = frozenset(ShardingStrategy)
    """Those that the tool has, done as in the trials."""

    @abstractmethod
    def export(self, best: BestConfiguration) -> str:
        """The complete text of the file. Raises UserError for what can't be left out of it."""

    def left_out(self, best: BestConfiguration) -> list[str]:
        """What the form has no place for, so that the tool won't do it by itself: one entry each.

        Whatever an exporter doesn't say that it expresses is here, so nothing is lost unsaid.
        """
        if self.expresses is None:
            return []
        found = [f"{n}={v}" for n, v in asked(best).items() if n not in self.expresses]
        if ENVIRONMENT not in self.expresses:
            found += [f"{name} in the environment" for name in best.environment]
        return [*found, *_unknown(best), *self.differences(best)]

    def differences(self, best: BestConfiguration) -> list[str]:
        """What the tool does otherwise than the trials did, though the form has a place for it."""
        del best
        return []

    def check_strategy(self, best: BestConfiguration, why: str) -> None:
        """Raise FieldError, saying `why`, for a strategy that the tool doesn't have."""
        strategy = best.settings.strategy
        if strategy not in self.strategies:
            raise FieldError(
                "settings.parallelism.strategy",
                strategy.value,
                f"can't be exported --to {self.name}: {why}",
                alternatives=sorted(self.strategies),
            )


def _unknown(best: BestConfiguration) -> list[str]:
    """What nobody has seen of a script, though the settings name it."""
    script = best.evidence.script
    if script is None or "strategy" in (*script.told, *script.own):
        return []
    return [f"how {script.program} divides its model, which isn't known"]
