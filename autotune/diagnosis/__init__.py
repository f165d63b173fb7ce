"""From logs to why a job failed: which rank, what happened, and what to do.

Pure. Logs may be cut, mixed, huge, binary or made up: nothing raises, and the work is linear in
what is read. Files are read by who calls it.
"""

from collections.abc import Iterable

from autotune.diagnosis.conclude import conclude
from autotune.diagnosis.diagnosis import Diagnosis
from autotune.diagnosis.lines import without_controls
from autotune.diagnosis.log import Finding, Log
from autotune.diagnosis.progress import Progress
from autotune.diagnosis.scan import Scan

__all__ = ["Diagnosis", "Log", "diagnose", "without_controls"]


def diagnose(logs: Iterable[Log]) -> Diagnosis | None:
    """Why the job failed whose logs these are; None if they show no failure that is known.

    Each log is read once and let go, so they may come from a generator.
    """
    findings: list[Finding] = []
    said: list[Progress] = []
    ranks: set[int] = set()
    for log in logs:
        scan = Scan(log)
        findings += scan.findings
        said += scan.progress
        ranks |= scan.ranks
    return conclude(findings, said, ranks)
