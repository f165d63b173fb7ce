"""A SageMaker training job's container, as far as a process can tell: its /opt/ml and environment.

container = Container(tmp_path / "ml", hosts=["algo-1"], current="algo-1")
container.receive(bundle)
process = container.start(variables)
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.netns import Host
from tests.ray_hosts import ROOT, descendants

ENTRYPOINT = "python3 {root}/input/data/code/start.py"
"""As the training job's ContainerEntrypoint has it, but for the root."""


@dataclass(kw_only=True)
class Container:
    """One host's."""

    root: Path
    hosts: Sequence[str]
    current: str
    host: Host | None = None
    """The namespace that it runs in."""
    interface: str = "eth0"
    _processes: "list[subprocess.Popen[str]]" = field(default_factory=list, init=False)

    def receive(self, bundle: Path) -> None:
        """Lay out what SageMaker lays out before it starts the container."""
        shutil.copytree(bundle, self.root / "input" / "data" / "code")
        for folder in ("input/config", "model", "output/data"):
            (self.root / folder).mkdir(parents=True)
        config = {
            "current_host": self.current,
            "current_instance_type": "ml.m5.xlarge",
            "current_group_name": "homogeneousCluster",
            "hosts": list(self.hosts),
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": "ml.m5.xlarge",
                    "hosts": list(self.hosts),
                }
            ],
            "network_interface_name": self.interface,
            "topology": None,
        }
        (self.root / "input/config/resourceconfig.json").write_text(json.dumps(config))

    @contextmanager
    def started(self, variables: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
        """Its process; output and errors in the file `log`. Nothing of it is left at the end."""
        words = ["/bin/bash", "-c", ENTRYPOINT.format(root=self.root)]
        with self.log.open("a") as log:
            process = subprocess.Popen(
                self.host.command(*words) if self.host else words,
                env={**self._environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            vanish(process)

    @property
    def log(self) -> Path:
        """What CloudWatch would get."""
        return self.root.with_name(f"{self.root.name}.log")

    @property
    def failure(self) -> str:
        path = self.root / "output" / "failure"
        return path.read_text() if path.exists() else ""

    def _environment(self) -> dict[str, str]:
        """Of a fresh container, with what the image and the platform set."""
        kept = ("HOME", "TMPDIR", "LANG", "AUTOTUNE_LOCK_FOLDER")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "PIP_NO_INDEX": "1",
            "AUTOTUNE_SAGEMAKER_ROOT": str(self.root),
            "TRAINING_JOB_NAME": "autotune-test",
            "SM_HOSTS": json.dumps(list(self.hosts)),
            "SM_CURRENT_HOST": self.current,
        }


def vanish(process: "subprocess.Popen[Any]") -> None:
    """As a machine that is taken away: SIGKILL to the process and all that it has started."""
    for _ in range(10):
        pids = [pid for pid in [*descendants(process.pid), process.pid] if pid != os.getpid()]
        if process.poll() is not None and len(pids) == 1:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait(timeout=60)


def write_bundle(folder: Path, job: Mapping[str, Any], work: Mapping[str, str] = {}) -> Path:
    """As the client sends it, without a wheel and requirements: these containers have autotune."""
    (folder / "work").mkdir(parents=True)
    shutil.copy(ROOT / "autotune/sagemaker/inside/start.py", folder)
    (folder / "job.json").write_text(json.dumps(job))
    for name, text in work.items():
        (folder / "work" / name).write_text(text)
    return folder
