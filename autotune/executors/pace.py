"""How long a trial may be silent before it counts as hung. Pure: it is told the time."""

from dataclasses import dataclass, field

STEPS_AFTER_WINDOWS = 10
"""Steps' time between the last window and the result: reading back, the share of communication."""
MOST_TURN_S = 2.0


@dataclass(kw_only=True)
class Pace:
    """The signs of life of one trial, and by when the next one is due. All times are in seconds.

    The first step may take what the launcher has said: before it ends, models are built and
    compiled. After it, a trial is expected to take as long from sign to sign as it has taken at
    most, and may take `slack_s` more: what a slow disk adds to single steps is within that.
    """

    first_step_s: float
    window_s: float
    """Length that windows aim at."""
    slack_s: float
    started_s: float | None = None
    """When all ranks had met; before, nothing is expected."""
    steps: int = 0
    """That rank 0 has told of."""
    _last_s: float = field(default=0.0, init=False)
    _longest_s: float = field(default=0.0, init=False)
    _is_stepping: bool = field(default=False, init=False)
    _is_finishing: bool = field(default=False, init=False)

    def start(self, now_s: float) -> None:
        """All ranks have met."""
        if self.started_s is None:
            self.started_s = self._last_s = now_s

    def step(self, now_s: float, steps: int) -> None:
        """Rank 0 has done so many steps before the first window."""
        if steps > 1:  # the first one may have compiled
            self._longest_s = max(self._longest_s, now_s - self._last_s)
        self.steps = steps
        self._is_stepping |= steps > 0
        self._last_s = now_s

    def window(self, now_s: float, *, is_last: bool) -> None:
        """A window has closed."""
        if self._is_stepping:
            self._longest_s = max(self._longest_s, now_s - self._last_s)
        self._is_stepping = True
        self._is_finishing |= is_last
        self._last_s = now_s

    @property
    def expected_s(self) -> float:
        """From the last sign of life to the next."""
        if not self._is_stepping:
            return self.first_step_s
        usual_s = max(self.window_s, self._longest_s)
        return STEPS_AFTER_WINDOWS * usual_s if self._is_finishing else usual_s

    def silent_s(self, now_s: float) -> float:
        """Since the last sign of life; 0 before the ranks have met."""
        return 0.0 if self.started_s is None else now_s - self._last_s

    def is_overdue(self, now_s: float) -> bool:
        """Whether the trial hangs."""
        slack_s = self.slack_s if self._is_stepping else 0.0
        return self.silent_s(now_s) > self.expected_s + slack_s


@dataclass(kw_only=True)
class Patience:
    """A clock that stands still while the launcher does.

    A launcher that was stopped, or that waited for a terminal, has left its ranks unheard: that
    they were silent is not their fault.
    """

    now_s: float = 0.0
    _seen_s: float | None = field(default=None, init=False)

    def turn(self, real_s: float) -> float:
        """The launcher is at work at `real_s` of a monotonic clock; returns this clock's time."""
        if self._seen_s is not None:
            self.now_s += min(MOST_TURN_S, real_s - self._seen_s)
        self._seen_s = real_s
        return self.now_s
