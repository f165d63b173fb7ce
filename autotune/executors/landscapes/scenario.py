"""The content of a landscape file: a landscape, the machine that it stands for, and its job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.errors import FieldError
from autotune.executors.landscapes.drift import Drift
from autotune.executors.landscapes.effects import Effects, Rule
from autotune.executors.landscapes.failures import Failure
from autotune.executors.landscapes.landscape import Landscape
from autotune.executors.landscapes.noise import Noise
from autotune.executors.landscapes.recorded import Recorded
from autotune.space.conditions import Condition
from autotune.space.nccl import NcclVersion

CPU = "cpu"
"""The machine of a landscape that names no instance type."""
_KEYS = {
    "launch_percent": "launch_noise_percent",
    "window_percent": "window_noise_percent",
    "step_percent": "step_noise_percent",
}
"""Names of the parts' fields, to the file's keys."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Where recorded launches are."""

    file: str
    """Beside the landscape's own file."""
    sha256: str

    def __post_init__(self) -> None:
        if Path(self.file).name != self.file:
            raise FieldError("file", self.file, "has to be the name of a file in the same folder")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What was recorded; a study on it has to be the same."""

    workload: str
    global_batch: int
    only: tuple[str, ...]
    """The knobs that were varied."""
    notes: str = ""
    """Machine, versions, date and load of the recording, for people."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The content of a landscape file. Its keys are documented in docs/simulation.md."""

    help: str = ""
    machine: str = CPU
    """`cpu`, or an instance type of the catalogue."""
    cores: int = 2
    """Of a node, with machine cpu."""
    memory_gib: float = 16.0
    """Of a node, with machine cpu."""
    nodes: int = 1
    ranks_per_node: int | None = None
    """None is one for each GPU or core."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of `nccl` and `torch`: what the knobs depend on."""
    samples_per_second: float = 1000.0
    launch_s: float = 0.25
    launch_noise_percent: float | None = None
    window_noise_percent: float | None = None
    step_noise_percent: float | None = None
    drift: Drift = field(default_factory=Drift)
    better: Condition = field(default_factory=dict)
    """What `gain_percent` is for."""
    gain_percent: float = 0.0
    rules: tuple[Rule, ...] = ()
    value_percent: float = 0.0
    pair_percent: float = 0.0
    rugged_percent: float = 0.0
    failures: tuple[Failure, ...] = ()
    losses: tuple[Rule, ...] = ()
    memory_percent: float = 100.0
    seed: int = 0
    table: Table | None = None
    """Recorded launches, in place of the speed and the noise above."""
    job: Job | None = None
    """With a table: what it was recorded of."""

    def __post_init__(self) -> None:
        for name, most in (("cores", 4096), ("nodes", 10_000), ("ranks_per_node", 4096)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise FieldError(name, value, f"has to be from 1 to {most}")
        if not 0 < self.memory_gib < math.inf:
            raise FieldError("memory_gib", self.memory_gib, "has to be positive and finite")
        for name in self.versions:
            if name not in ("nccl", "torch"):
                alternatives = ["nccl", "torch"]
                raise FieldError(f"versions.{name}", name, "is unknown", alternatives=alternatives)
        if "nccl" in self.versions:
            try:
                NcclVersion.parse(self.versions["nccl"])
            except FieldError as error:
                raise error.within("versions") from None
        if (self.table is None) != (self.job is None):
            raise FieldError("job", self.job, "is given with a table, and only then")
        self._check_gain()
        try:
            self.landscape("checked")
        except FieldError as error:
            raise FieldError(_KEYS.get(error.field, error.field), error.value, error.rule) from None

    def _check_gain(self) -> None:
        try:
            Rule(when=self.better, percent=self.gain_percent)
        except FieldError as error:
            name = error.field.replace("when", "better").replace("percent", "gain_percent")
            raise FieldError(
                name, error.value, error.rule, alternatives=error.alternatives, hint=error.hint
            ) from None

    def landscape(self, name: str, recorded: Recorded | None = None) -> Landscape:
        """The landscape itself; `recorded` is what the table says, if there is one."""
        return Landscape(
            name=name,
            samples_per_second=1.0 if recorded else self.samples_per_second,
            speed=recorded or self._effects(),
            noise=self._noise(recorded),
            drift=self.drift,
            failures=self.failures,
            losses=self.losses,
            launch_s=self.launch_s,
            memory_percent=self.memory_percent,
            seed=self.seed,
        )

    def _effects(self) -> Effects:
        gain = (Rule(when=self.better, percent=self.gain_percent),) if self.better else ()
        return Effects(
            rules=(*gain, *self.rules),
            value_percent=self.value_percent,
            pair_percent=self.pair_percent,
            rugged_percent=self.rugged_percent,
            seed=self.seed,
        )

    def _noise(self, recorded: Recorded | None) -> Noise:
        launch, window = self.launch_noise_percent, self.window_noise_percent
        if recorded is not None:
            launch = recorded.launch_percent if launch is None else launch
            window = recorded.window_percent if window is None else window
        return Noise(
            launch_percent=launch or 0.0,
            window_percent=window or 0.0,
            step_percent=self.step_noise_percent or 0.0,
        )
