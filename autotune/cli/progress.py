"""What a person sees on stderr while a study runs."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from statistics import fmean, median, stdev

from rich.console import Console
from rich.live import Live
from rich.text import Text

from autotune.cli.render import changes, duration_text, settings_text
from autotune.exporters.text import defaults_text
from autotune.loop.observer import Observer, TrialStart
from autotune.model import KnobValue, Trial, Window
from autotune.scoring.score import score


class Progress(Observer):
    """One line for each ended trial; on a terminal also a line that follows the running one."""

    def __init__(
        self, console: Console | None = None, *, pinned: Mapping[str, KnobValue] | None = None
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._start: TrialStart | None = None
        self._rates: list[float] = []
        self._best = 0.0
        self._defaults = defaults_text(pinned or {})

    def resumed(self, trials: Iterable[Trial]) -> None:
        """Begin with what was measured before."""
        kept = list(trials)
        for trial in kept:
            self._seen(trial)
        if kept:
            self.say(f"{len(kept)} trial{'s' * (len(kept) > 1)} of before kept")

    def say(self, text: str) -> None:
        """Print a line; a study doesn't end because nobody can read it."""
        with suppress(OSError):
            self._console.print(Text(text))

    def trial_started(self, start: TrialStart) -> None:
        self._start = start
        self._rates = []
        if self._console.is_terminal:
            with suppress(OSError):
                self._live = Live(Text(""), console=self._console, transient=True)
                self._live.start()
            self._refresh()

    def window_closed(self, window: Window) -> None:
        self._rates.append(window.samples_per_second)
        self._refresh()

    def trial_ended(self, trial: Trial) -> None:
        self.close()
        self.say(f"{self._prefix()}  {self._result(trial)}")
        if trial.left_behind:
            self.say(f"       left behind: {trial.left_behind}")

    def note(self, start: TrialStart, trial: Trial) -> None:
        """The line of a trial that ran elsewhere, and is over."""
        self._start = start
        self.trial_ended(trial)

    def close(self) -> None:
        """Take the running line away; an ended study leaves only whole lines."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def _refresh(self) -> None:
        if self._live is None:
            return
        with suppress(OSError):
            self._live.update(Text(f"{self._prefix()}  {_rate(self._rates)}  …"))

    def _prefix(self) -> str:
        start = self._start
        if start is None:
            return ""
        parts = [f"[{start.number:3d}] {start.step.phase.value:8s}"]
        different = changes(start.step.candidate, start.baseline)
        parts.append(settings_text(different) if different else self._defaults)
        return "  ".join(parts)

    def _result(self, trial: Trial) -> str:
        measurement = trial.scored
        if measurement is None:
            return f"{trial.outcome.value}: {trial.reason}"
        self._seen(trial)
        parts = [
            _rate([window.samples_per_second for window in measurement.windows]),
            f"best reading {self._best:,.1f}",
        ]
        remaining_s = self._start.remaining_s if self._start else None
        if remaining_s is not None:
            parts.append(f"{duration_text(max(0.0, remaining_s - trial.seconds))} left")
        return ", ".join(parts)

    def _seen(self, trial: Trial) -> None:
        if trial.scored:
            self._best = max(self._best, score(trial.scored).samples_per_second)


def _rate(rates: list[float]) -> str:
    """As the score has it: the median over windows, here with their spread around the mean."""
    if not rates:
        return "starting"
    spread = f" ± {100 * stdev(rates) / fmean(rates):.1f} %" if len(rates) > 1 else ""
    return f"{median(rates):,.1f} samples/s{spread}"
