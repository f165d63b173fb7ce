"""What the store has in place of an answer that isn't there, and why that isn't used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.model import BestConfiguration, Target

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person asked for; None where anything would do."""

    instance: str
    workload: str
    ranks_per_node: int | None
    global_batch: int | None

    def describe(self) -> str:
        parts = [f"{self.workload} on {self.instance}"]
        parts += [f"{self.ranks_per_node} ranks"] if self.ranks_per_node is not None else []
        parts += [f"global batch {self.global_batch}"] if self.global_batch is not None else []
        return ", ".join(parts)

    def obstacles(self, target: Target) -> list[str]:
        """Why an answer for `target` isn't one for this, the weightiest reason first."""
        return [why for _, why in self._differences(target)]

    def distance(self, target: Target) -> int:
        """Another machine weighs more than another workload, and that more than the rest."""
        return sum(weight for weight, _ in self._differences(target))

    def _differences(self, target: Target) -> Iterator[tuple[int, str]]:
        if target.instance != self.instance:
            yield 8, f"measured on {target.instance}"
        if target.workload != self.workload:
            yield 4, f"for the workload {target.workload}"
        if self.ranks_per_node not in (None, target.ranks_per_node):
            yield 2, f"with {target.ranks_per_node} ranks a node"
        if self.global_batch not in (None, target.global_batch):
            yield 1, f"at a global batch of {target.global_batch}"


def near_misses(wanted: Wanted, every: Sequence[BestConfiguration]) -> str:
    """The nearest answers, each with what keeps it from being used, as lines of a message."""
    if not every:
        return "the store has no answer yet"
    ranked = sorted(every, key=lambda best: (wanted.distance(best.target), best.run_id))
    lines = [
        f"  {best.target.describe()}: not used, since it was "
        f"{', '.join(wanted.obstacles(best.target))}"
        for best in ranked[:_SHOWN]
    ]
    more = len(every) - _SHOWN
    lines += [f"  and {more} further away"] if more > 0 else []
    return "\n".join(["nearest:", *lines])
