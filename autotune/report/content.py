"""What a report says, as data: the JSON form is exactly this."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.model import KnobValue, Ratio, Reading
from autotune.report.worth import Worth

SCHEMA = "autotune-report/v1"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A configuration that is compared."""

    name: str
    """`baseline`, `winner`, or `leading candidate` if nothing is confirmed."""
    settings: Mapping[str, KnobValue]
    """What differs from the baseline; of the baseline itself, what the user held."""
    environment: Mapping[str, str]
    reading: Reading | None


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of confirmation: each arm's samples/s, by the arm's name."""

    number: int
    rates: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the study says."""

    sentence: str
    conclusion: str
    """A Conclusion, or `none yet`."""
    reason: str
    baseline: Arm | None
    winner: Arm | None
    """None if the baseline is kept."""
    ratio: Ratio | None
    """Winner over baseline, by interleaved launches."""
    rounds: tuple[Round, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader has to know before they trust it."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One trial in the history."""

    trial: int
    phase: str
    settings: str
    """What differs from the baseline."""
    outcome: str
    reason: str
    samples_per_second: float | None
    """Of windows before a trial was stopped, too."""
    stability: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SkippedGroup:
    """Candidates that needed no launch for the same reason."""

    candidates: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What was not launched, and what did nothing."""

    unknown: str = ""
    """Why this isn't known here, as a clause; empty if it is known."""
    candidates: tuple[SkippedGroup, ...] = ()
    memory: str = ""
    """What was left out by the predicted memory, as a sentence."""
    no_effect: Mapping[str, str] = field(default_factory=dict)
    """Settings that were launched and did nothing, with what was seen in their place."""
    search_ended: str = ""
    """Why the search went no further, as a clause."""
    stopped: int = 0
    """Trials that were stopped because they had lost."""
    knobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Those that were not searched, by the reason."""


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Trials that ended in the same way."""

    outcome: str
    trials: tuple[int, ...]
    blamed: str
    """On whom: `candidate` or `machine`."""
    reason: str
    """Of the last one."""
    advice: str


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Time per optimizer step of one arm, by measured windows of several steps; milliseconds."""

    arm: str
    launches: int
    windows_ms: tuple[float, ...]
    p10_ms: float
    median_ms: float
    p90_ms: float


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The largest peak of any rank over a candidate's launches."""

    settings: str
    arm: str
    """Its name if it is one of the arms, else empty."""
    bytes: int
    launches: int


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Measured peaks against what a rank may use."""

    limit_bytes: int | None
    limit_source: str
    peaks: tuple[Peak, ...] = ()
    """By candidate, the largest first."""


@dataclass(frozen=True, kw_only=True)
class Communication:
    """The share of a step that is communication which nothing hides."""

    settings: str
    arm: str
    share: float
    """Mean over launches, in [0, 1]."""
    launches: int


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """How to get the same again."""

    commands: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """All of it."""

    schema: str
    run: str
    kind: str
    """`measured` or `simulated`: of every figure that isn't called predicted."""
    target: str
    machine: str
    status: str
    strategy: str
    started: str
    """In ISO 8601."""
    trials: int
    seconds: float
    """That the trials took."""
    autotune: str
    """The version that wrote the report."""
    versions: Mapping[str, str]
    """Of the machine's driver and libraries, and what the trials read back."""
    answer: Answer
    history: tuple[Launch, ...]
    worth: Worth | None
    skipped: Skipped
    failures: tuple[Failures, ...]
    steps: tuple[StepTimes, ...]
    memory: Memory
    communication: tuple[Communication, ...]
    """Empty if it was not measured."""
    reproduce: Reproduce
