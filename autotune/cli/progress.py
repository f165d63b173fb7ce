"""What a person sees on stderr while a study runs."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, median, stdev

from rich.console import Console
from rich.live import Live
from rich.text import Text

from autotune.cli.render import changes, duration_text, settings_text, visible
from autotune.exporters.text import defaults_text
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.plan import Step
from autotune.model import Candidate, KnobValue, Trial, Window
from autotune.scoring.score import score


@dataclass
class _Running:
    """A trial that is under way."""

    start: TrialStart
    rates: list[float] = field(default_factory=list)


class Progress(Observer):
    """One line for each ended trial; on a terminal also one that follows each running one."""

    def __init__(
        self, console: Console | None = None, *, pinned: Mapping[str, KnobValue] | None = None
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._running: dict[Candidate, _Running] = {}
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
            self._console.print(Text(visible(text)))

    def noticed(self, notice: str) -> None:
        self.say(f"notice: {notice}")

    def trial_started(self, start: TrialStart) -> None:
        self._running[start.step.candidate] = _Running(start)
        if self._console.is_terminal and self._live is None:
            with suppress(OSError):
                self._live = Live(Text(""), console=self._console, transient=True)
                self._live.start()
        self._refresh()

    def window_closed(self, step: Step, window: Window) -> None:
        self._running[step.candidate].rates.append(window.samples_per_second)
        self._refresh()

    def trial_ended(self, trial: Trial) -> None:
        start = self._running.pop(trial.candidate).start
        if not self._running:
            self.close()
        self.note(start, trial)
        self._refresh()

    def note(self, start: TrialStart, trial: Trial) -> None:
        """The line of a trial that is over."""
        what = self._what(trial.number, start)
        self.say(f"{what}  {self._result(trial, start.remaining_s)}")
        if trial.left_behind:
            self.say(f"       left behind: {trial.left_behind}")

    def close(self) -> None:
        """Take the running lines away; an ended study leaves only whole ones."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def _refresh(self) -> None:
        if self._live is None:
            return
        lines = [
            f"{self._what(one.start.number, one.start)}  {_rate(one.rates)}  …"
            for one in self._running.values()
        ]
        with suppress(OSError):
            self._live.update(Text("\n".join(lines)))

    def _what(self, number: int, start: TrialStart) -> str:
        parts = [f"[{number:3d}] {start.step.phase.value:8s}"]
        different = changes(start.step.candidate, start.baseline)
        parts.append(settings_text(different) if different else self._defaults)
        return "  ".join(parts)

    def _result(self, trial: Trial, remaining_s: float | None) -> str:
        measurement = trial.scored
        if measurement is None:
            return f"{trial.outcome.value}: {trial.reason}"
        self._seen(trial)
        parts = [
            _rate([window.samples_per_second for window in measurement.windows]),
            f"best reading {self._best:,.1f}",
        ]
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
