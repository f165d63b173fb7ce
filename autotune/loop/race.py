"""What a running trial is told at the edge of each window."""

import math
from dataclasses import dataclass, field

from autotune.loop.ledger import Ledger
from autotune.model import Phase, Window
from autotune.model.protocol import Verdict
from autotune.scoring.racing import is_known, is_lost


@dataclass(kw_only=True)
class Race:
    """One trial against the best so far. Only the search's own trials may be stopped as lost."""

    ledger: Ledger
    phase: Phase
    _log_rates: list[float] = field(default_factory=list)

    def verdict(self, window: Window) -> Verdict:
        """Stop what has lost; end what is known well enough."""
        self._log_rates.append(self._log_rate(window))
        if self._has_lost():
            return Verdict.STOP
        # By the noise alone and not by what was read, so that no reading is favoured.
        is_enough = is_known(len(self._log_rates), self.ledger.noise)
        return Verdict.ENOUGH if is_enough else Verdict.GO

    def _has_lost(self) -> bool:
        leader = self.ledger.leader
        if self.phase is not Phase.SEARCH or leader is None:
            return False
        return is_lost(self._log_rates, leader, self.ledger.noise)

    def _log_rate(self, window: Window) -> float:
        return self.ledger.drift.corrected(
            math.log(window.samples_per_second), self.ledger.elapsed_s
        )
