"""What a training job has to do: job.json, which the client writes."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from autotune.errors import FieldError, UserError
from autotune.model import decode
from autotune.storage.folder import check_run_id

FORMAT = 1
_LEAST_TOKEN = 32
_OURS = ("--nodes", "--address", "--storage", "--mirror", "--run-id", "--output")
"""Options of `autotune run` that the job itself sets."""
_SIMULATED = ("--executor", "simulated")
"""What a job may rehearse; where real trials run follows from its nodes."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, or what is left of one that an earlier job has begun."""

    format: int
    run_id: str
    arguments: tuple[str, ...]
    """Of `autotune run`, without those that the job itself sets."""
    s3: str
    """The run's own place, which ends with its run id."""
    nodes: int = 1
    time_limit_s: float | None = None
    """After which SageMaker ends the job."""
    cost_limit_usd: float | None = None
    """Of all jobs of the run."""
    spent_usd: float = 0.0
    """By its earlier jobs."""
    usd_per_hour: float | None = None
    """Of all the job's nodes."""
    token: str = ""
    """What the job's hosts show each other; random, and of this job alone."""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise FieldError(
                "format", self.format, f"has to be {FORMAT}: another version of autotune wrote it"
            )
        check_run_id(self.run_id)
        if self.s3.rstrip("/").rpartition("/")[2] != self.run_id:
            raise FieldError("s3", self.s3, f"has to end with the run id, /{self.run_id}")
        if self.nodes < 1:
            raise FieldError("nodes", self.nodes, "has to be at least 1")
        if self.nodes > 1 and len(self.token) < _LEAST_TOKEN:
            raise FieldError(
                "token", "…", f"has to have {_LEAST_TOKEN} characters for {self.nodes} nodes"
            )
        for name in ("time_limit_s", "cost_limit_usd", "usd_per_hour"):
            if (limit := getattr(self, name)) is not None and not 0 < limit < float("inf"):
                raise FieldError(name, limit, "has to be positive and finite")
        for word, value in pairwise((*self.options, "")):
            name = word.partition("=")[0]
            if name in _OURS or (name == _SIMULATED[0] and (word, value) != _SIMULATED):
                raise FieldError("arguments", word, "is set by the job itself")

    @property
    def limit_s(self) -> float | None:
        """How long the job may run, by its time and by its money; None if nothing limits it."""
        limits = [] if self.time_limit_s is None else [self.time_limit_s]
        if self.cost_limit_usd is not None and self.usd_per_hour is not None:
            limits.append(3600 * (self.cost_limit_usd - self.spent_usd) / self.usd_per_hour)
        return min(limits, default=None)

    @property
    def options(self) -> tuple[str, ...]:
        """The arguments before a script's."""
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        return self.arguments[:end]

    @property
    def mirror(self) -> str:
        """As `--mirror` has it: what is above the run's own place."""
        return self.s3.rstrip("/").rpartition("/")[0]


def read_job(path: Path) -> Job:
    """The job in the file. Raises UserError that names it, and the field."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not JSON") from None
    try:
        return decode(Job, data)
    except FieldError as error:
        raise error.within(str(path)) from None
