"""What a job leaves: the answer, the report, logs and the cause of a failure; here and in S3."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from autotune.errors import StorageError
from autotune.executors.log_tail import EVIDENCE_BYTES, log_end
from autotune.exporters.document import to_yaml
from autotune.exporters.files import write_atomically
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.study import Ending
from autotune.storage import Store
from autotune.storage.objects import Objects

_MOST_LOGS = 16 * 2**20
"""Bytes of logs that are sent in all, the newest trials' first."""
_REPORT_S = 60.0
Say = Callable[[str], None]


def write_answer(store: Store, run_id: str, layout: Layout) -> None:
    """The run's own answer, also one that an earlier job has found."""
    study = store.study(run_id)
    best = (
        None if study is None or study.spec.target.is_simulated else store.best(study.spec.target)
    )
    if best is not None and best.run_id == run_id:
        write_atomically(layout.best, to_yaml(best))


def write_report(run_id: str, layout: Layout, variables: Mapping[str, str], say: Say) -> None:
    """An HTML page; needs matplotlib."""
    layout.report.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "autotune", "report", run_id, "--output", str(layout.report)]
    try:
        done = subprocess.run(
            words, env=dict(variables), cwd=layout.work, capture_output=True, text=True,
            check=False, timeout=_REPORT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        say(f"no report: it took more than {_REPORT_S:.0f} s")
        return
    if done.returncode:
        say(f"no report: {done.stderr.strip()}")


def send_results(objects: Objects, run_id: str, layout: Layout, ending: Ending, say: Say) -> None:
    """Put into S3 what there is. What can't be sent is told, and ends nothing."""
    try:
        for path in (layout.best, layout.report):
            if path.exists():
                objects.put(f"result/{path.name}", path.read_bytes())
        # An earlier job's failure isn't this one's.
        objects.put("result/failure.txt", ending.failure.encode())
        objects.put("logs/controller.log", "\n".join(ending.said).encode())
        for name, content in _logs(layout.home / "runs" / run_id):
            objects.put(f"logs/{name}", content)
    except (StorageError, OSError) as error:
        say(f"not all results could be sent: {error}")


def _logs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and ends of the trials' logs."""
    left = _MOST_LOGS
    for path in _newest_first(folder.rglob("*.log")):
        content = log_end(path, EVIDENCE_BYTES).encode()
        left -= len(content)
        if left < 0:
            return
        yield path.relative_to(folder).as_posix(), content


def _newest_first(paths: Iterator[Path]) -> Sequence[Path]:
    times = {}
    for path in paths:
        with suppress(OSError):
            times[path] = path.stat().st_mtime_ns
    return sorted(times, key=lambda path: times[path], reverse=True)
