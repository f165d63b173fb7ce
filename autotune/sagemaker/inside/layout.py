"""Where things are in the container of a training job.

What SageMaker promises of /opt/ml: "How Amazon SageMaker provides training information", in its
developer guide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = "AUTOTUNE_SAGEMAKER_ROOT"
"""Names another folder than /opt/ml, for containers that aren't SageMaker's."""
_MOST_FAILURE = 1024
"""Characters of the failure file that DescribeTrainingJob shows."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The folders and files below one root."""

    root: Path = Path("/opt/ml")

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Layout":
        return cls(root=Path(environ[ROOT]).absolute()) if environ.get(ROOT) else cls()

    @property
    def hosts(self) -> Path:
        """Which hosts there are; SageMaker writes it."""
        return self.root / "input" / "config" / "resourceconfig.json"

    @property
    def code(self) -> Path:
        """The channel `code`: what the client has sent."""
        return self.root / "input" / "data" / "code"

    @property
    def job(self) -> Path:
        """What is to be done."""
        return self.code / "job.json"

    @property
    def work(self) -> Path:
        """The folder that the study runs in, with the user's files."""
        return self.root / "autotune" / "work"

    @property
    def home(self) -> Path:
        """Autotune's data folder: the database, and the trials' logs."""
        return self.root / "autotune" / "home"

    @property
    def best(self) -> Path:
        """The answer; SageMaker uploads the folder when the job ends."""
        return self.root / "model" / "best.yaml"

    @property
    def report(self) -> Path:
        return self.root / "model" / "report.html"

    def tell_failure(self, text: str) -> None:
        """Leave the text that SageMaker shows as the job's FailureReason. Raises OSError."""
        path = self.root / "output" / "failure"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text[:_MOST_FAILURE], encoding="utf-8")
