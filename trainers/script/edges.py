"""Where ranks meet between stretches of a script's steps: through the store, with no collective.

The script's own process groups are left alone.
"""

import json
from dataclasses import asdict, dataclass, field

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from autotune.trainers.rendezvous import Place, part


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one rank tells at an edge."""

    seconds: float
    """Since the edge before."""
    reserved_bytes: int = 0
    peak_bytes: int = 0
    retries: int = 0
    samples: int = 0
    """Rows read for a step; 0 if nobody knows."""
    losses: list[float] = field(default_factory=list)


class Edges:
    """Every rank calls `tell` or `gather`, then `ask` or `announce`, at the same steps."""

    def __init__(self, store: Store, place: Place) -> None:
        self._store = PrefixStore("autotune/steps", store)
        self._place = place
        self._number = 0

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which decides."""
        return self._place.rank == 0

    def exchange(self, facts: Facts) -> list[Facts]:
        """All ranks' facts on rank 0; elsewhere only the own ones."""
        self._number += 1
        if not self.leads:
            self._store.set(f"{self._number}/{self._place.rank}", json.dumps(asdict(facts)))
            return [facts]
        keys = [f"{self._number}/{rank}" for rank in range(1, self._place.ranks)]
        return [facts, *(Facts(**json.loads(self._store.get(key))) for key in keys)]

    def announce(self, steps: int) -> None:
        """Rank 0 says how many steps come before the next edge; 0 is the end."""
        self._store.set(f"{self._number}/next", str(steps))

    def ask(self) -> int:
        """What rank 0 has announced; waits for it."""
        return int(self._store.get(f"{self._number}/next"))

    def share(self, name: str, value: object) -> list[object]:
        """JSON values of all ranks, on all ranks."""
        self._store.set(f"{name}/{self._place.rank}", json.dumps(value))
        return [json.loads(self._store.get(f"{name}/{r}")) for r in range(self._place.ranks)]

    def part(self) -> None:
        """Rank 0 serves the store: it returns after all others have come here."""
        part(self._store, self._place)
