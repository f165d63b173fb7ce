"""A job that runs a study elsewhere, as whoever submitted it remembers it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Job:
    """One SageMaker training job. A run has one for each time that it was submitted."""

    name: str
    """Unique in the account and region."""
    run_id: str
    submitted_at: datetime
    region: str
    s3: str
    """Where the run's files are: s3://BUCKET/PREFIX/RUN."""
    instance: str
    """The catalogue's name, without ml."""
    nodes: int
    described: str
    """What the study is for, in a line: known before its first record arrives."""
    max_runtime_s: int
    """After which SageMaker ends it."""
    usd_per_hour: float | None = None
    """Of all nodes, by the catalogue; None where it has no price."""
    max_cost_usd: float | None = None
    """For all jobs of the run together."""
    is_spot: bool = False
    output: str | None = None
    """The file that the answer is for; None is the default one."""
    request: str
    """The CreateTrainingJob request, as JSON: what a later job of the run asks for again."""
    arguments: tuple[str, ...]
    """Of `autotune run` inside."""
