"""Records a landscape: every candidate of a small grid, launched several times on this machine.

    PYTHONPATH=. python benchmarks/record_landscape.py two-ranks --minutes 15
    PYTHONPATH=. python benchmarks/record_landscape.py two-hosts --minutes 15

The hosts are network namespaces, which need root. Rounds launch all candidates once in random
order, so that what changes on the machine meanwhile is noise between the launches of each, and no
difference between candidates. Writes NAME.yaml and NAME.csv.gz, which
`autotune run --executor simulated --landscape NAME.yaml` plays back.
"""

import argparse
import hashlib
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from threading import Event

import yaml
from shaped_hosts import ShapedHostsExecutor

from autotune.executors.base import Executor, Launch, LaunchEnd
from autotune.executors.host import describe_machine
from autotune.executors.landscapes import Row, layout_of, table_bytes
from autotune.executors.landscapes.layout import key
from autotune.executors.local import LocalExecutor
from autotune.model import (
    GIB,
    Candidate,
    Machine,
    Measurement,
    MeasurementPlan,
    Target,
    TrialSpec,
)
from autotune.model.protocol import Verdict
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.space import Space
from tests import netns

PLAN = MeasurementPlan(min_warmup_steps=2, max_warmup_steps=2, windows=3, window_s=0.15)
TIME_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is recorded under one name."""

    help: str
    nodes: int
    ranks_per_node: int
    only: tuple[str, ...]
    workload: str = "tiny"
    global_batch: int = 32
    link: str = ""
    """Rate of each host's link in tc's notation; empty for one host."""


_EVERYWHERE = (
    "strategy",
    "reshard_after_forward",
    "accumulation_steps",
    "bucket_cap_mb",
    "communication_hook",
    "blocks_per_group",
    "forward_prefetch",
)
RECORDINGS = {
    "two-ranks": Recording(
        help="Two ranks on the cores of one machine, as they were measured.",
        nodes=1,
        ranks_per_node=2,
        only=_EVERYWHERE,
    ),
    "two-hosts": Recording(
        help="Two hosts of one rank with a link of 200 Mbit/s, as they were measured.",
        nodes=2,
        ranks_per_node=1,
        only=_EVERYWHERE,
        link="200mbit",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """Launches the candidates of one recording."""

    recording: Recording
    executor: Executor
    space: Space
    folder: Path

    def rows(self, rounds: int, until_s: float) -> Iterator[tuple[Row, float]]:
        """Each launch, and what of its time was no step; the first round is always whole."""
        order = list(self.space.candidates())
        for number in range(rounds):
            random.Random(number).shuffle(order)
            for index, candidate in enumerate(order):
                if number and time.monotonic() > until_s:
                    return
                yield self._row(candidate, number)
                if index % 20 == 0:
                    _say(f"round {number}, {index} of {len(order)}")

    def _row(self, candidate: Candidate, number: int) -> tuple[Row, float]:
        started = time.monotonic()
        end = self._launch(candidate, number)
        seconds = time.monotonic() - started
        measured = end.measurement
        rates = tuple(w.samples_per_second for w in measured.windows) if measured else ()
        steps_s = sum(w.seconds for w in measured.windows) if measured else 0.0
        if isinstance(measured, Measurement):
            steps_s += measured.warmup_s
        settings, variables = self.space.settings(candidate), self.space.environment(candidate)
        layout = key(layout_of(settings, variables))
        row = Row(layout=layout, launch=number, outcome=end.outcome, seconds=seconds, rates=rates)
        return row, seconds - steps_s

    def _launch(self, candidate: Candidate, number: int) -> LaunchEnd:
        with tempfile.TemporaryDirectory(dir=self.folder) as directory:
            spec = TrialSpec(
                trial_id=f"record-{number}",
                workload=self.recording.workload,
                settings=self.space.settings(candidate),
                environment=self.space.environment(candidate),
                device=self.space.facts.device,
                plan=PLAN,
            )
            launch = Launch(
                spec=spec,
                nodes=self.recording.nodes,
                ranks_per_node=self.recording.ranks_per_node,
                directory=Path(directory),
                time_limit_s=TIME_LIMIT_S,
            )
            return self.executor.run(launch, lambda _: Verdict.GO, Event())


def main() -> int:
    """Record, and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=RECORDINGS)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3, help="launches of each candidate at most")
    parser.add_argument("--folder", type=Path, default=Path("search_spaces/landscapes"))
    arguments = parser.parse_args()
    recording = RECORDINGS[arguments.name]
    load_before = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        executor = stack.enter_context(_executor(recording, stack))
        space = _space(recording, executor.machine())
        recorder = Recorder(recording=recording, executor=executor, space=space, folder=folder)
        until_s = time.monotonic() + 60 * arguments.minutes
        found = list(recorder.rows(arguments.rounds, until_s))
    load = f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after"
    _write(arguments.folder, arguments.name, recording, found, load)
    return 0


def _executor(recording: Recording, stack: ExitStack) -> Executor:
    if recording.nodes == 1:
        return LocalExecutor()
    return ShapedHostsExecutor(
        stack.enter_context(netns.hosts(recording.nodes, rate=recording.link))
    )


def _space(recording: Recording, machine: Machine) -> Space:
    target = Target(
        instance=machine.instance,
        nodes=recording.nodes,
        ranks_per_node=recording.ranks_per_node,
        workload=recording.workload,
        global_batch=recording.global_batch,
    )
    facts = Facts.of(machine, target)
    return Space(load_knobs(), facts, only=recording.only, allow_lossy=True)


def _write(
    folder: Path, name: str, recording: Recording, found: list[tuple[Row, float]], load: str
) -> None:
    rows = sorted((row for row, _ in found), key=lambda row: (row.layout, row.launch))
    table = table_bytes(rows)
    path = folder / f"{name}.csv.gz"
    path.write_bytes(table)
    machine = describe_machine()
    launches = f"{len(rows)} launches of {len({row.layout for row in rows})} layouts"
    document = {
        "help": recording.help,
        "cores": machine.cores,
        "memory_gib": round(machine.memory_bytes / GIB, 1),
        "nodes": recording.nodes,
        "ranks_per_node": recording.ranks_per_node,
        "versions": {"torch": version("torch")},
        "launch_s": round(median(rest_s for _, rest_s in found), 3),
        "table": {"file": path.name, "sha256": hashlib.sha256(table).hexdigest()},
        "job": {
            "workload": recording.workload,
            "global_batch": recording.global_batch,
            "only": list(recording.only),
            "notes": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {launches}, {machine.describe()}, "
            f"{load}, Python {platform.python_version()}, torch {version('torch')}",
        },
    }
    head = f"# Recorded by: PYTHONPATH=. python benchmarks/record_landscape.py {name}\n"
    text = yaml.safe_dump(document, sort_keys=False, width=100, default_flow_style=None)
    (folder / f"{name}.yaml").write_text(head + text, encoding="utf-8")
    _say(f"{path} has {launches}")


def _say(text: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")


if __name__ == "__main__":
    sys.exit(main())
