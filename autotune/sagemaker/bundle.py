"""What goes to S3 for a job: autotune's wheel, what it needs, the user's files, the job itself."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from autotune.sagemaker.request import CODE
from autotune.sagemaker.wheel import build_wheel, requirements

FORMAT = 1
JOB = f"{CODE}/job.json"
WORK = f"{CODE}/work"
_LIBRARIES = {"hf": "hf", "torchvision": "vision"}
"""Extras by the beginning of a workload's name."""


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """What the program in the container reads, as code/job.json."""

    run_id: str
    arguments: Sequence[str]
    """Of `autotune run`, with paths relative to the work folder."""
    s3: str
    nodes: int
    time_limit_s: int
    cost_limit_usd: float | None
    usd_per_hour: float | None
    spent_usd: float = 0.0
    """By the run's earlier jobs."""
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    """New for every job: what its hosts show each other."""

    def to_bytes(self) -> bytes:
        document: dict[str, Any] = {
            "format": FORMAT,
            "run_id": self.run_id,
            "arguments": list(self.arguments),
            "s3": self.s3,
            "nodes": self.nodes,
            "time_limit_s": self.time_limit_s,
            "cost_limit_usd": self.cost_limit_usd,
            "usd_per_hour": self.usd_per_hour,
            "spent_usd": self.spent_usd,
            "token": self.token,
        }
        return json.dumps(document, indent=2).encode() + b"\n"


def code_objects(nodes: int, work: Mapping[str, bytes], workload: str = "") -> dict[str, bytes]:
    """Objects under the run's prefix, by name, without the job's own. Raises UserError."""
    name, wheel = build_wheel()
    library = _LIBRARIES.get(workload.partition(":")[0])
    extras = ["s3", "report", *(["ray"] if nodes > 1 else []), *([library] if library else [])]
    start = files("autotune.sagemaker.inside").joinpath("start.py").read_bytes()
    return {
        f"{CODE}/{name}": wheel,
        f"{CODE}/requirements.txt": "".join(f"{r}\n" for r in requirements(*extras)).encode(),
        f"{CODE}/start.py": start,
        **{f"{WORK}/{path}": content for path, content in work.items()},
    }
