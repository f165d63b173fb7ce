"""The hosts of a job as one Ray cluster: the first one's part, and the others'."""

import socket
import sys
import time
from collections.abc import Callable, Mapping

from autotune.errors import ExecutorError
from autotune.sagemaker.inside import ray_node
from autotune.sagemaker.inside.child import Child
from autotune.sagemaker.inside.hosts import Hosts
from autotune.sagemaker.inside.job import Job
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.meeting import Line, Meeting, joined
from autotune.sagemaker.inside.notice import DISMISSED_S, Notice

COMING_S = 900.0
"""How long hosts wait for each other: they get their images at different times."""
Say = Callable[[str], None]
Lead = Callable[[Mapping[str, str], str], int]
"""Runs the study, with these variables on the cluster at this address: the exit code."""


def gather(
    job: Job, hosts: Hosts, layout: Layout, environ: Mapping[str, str], stop: Notice, lead: Lead
) -> int:
    """The head's part: the study's exit code. Raises ExecutorError if a host doesn't come."""
    own = ray_node.own_address(hosts)
    environ = {**environ, **ray_node.variables(job)}
    ray = f"{own}:{ray_node.PORT}"
    with ray_node.ray_node(own, environ, stop, work=layout.work) as node:
        meeting, code = Meeting(own, job.token, ray), 1
        try:
            _wait_for_all(hosts, meeting, node, environ, layout, stop, ray)
            code = lead(environ, ray)
        finally:
            meeting.dismiss(code)
    return code


def join(
    job: Job, hosts: Hosts, layout: Layout, environ: Mapping[str, str], stop: Notice, say: Say
) -> int:
    """A worker's part: the head's exit code. Raises ExecutorError if the head can't be found."""
    deadline = time.monotonic() + COMING_S
    environ = {**environ, **ray_node.variables(job)}
    own = ray_node.own_address(hosts)
    with (
        joined(
            lambda: socket.gethostbyname(hosts.head), hosts.current, job.token,
            goes_on=lambda: time.monotonic() < deadline and not stop.is_set(),
        ) as line,
        ray_node.ray_node(own, environ, stop, work=layout.work, head=line.ray) as node,
    ):  # fmt: skip
        say(f"{hosts.current}: works for {hosts.head}")
        return _until_dismissed(line, node, stop)


def _wait_for_all(
    hosts: Hosts,
    meeting: Meeting,
    node: Child,
    environ: Mapping[str, str],
    layout: Layout,
    stop: Notice,
    ray: str,
) -> None:
    words = [sys.executable, "-m", "autotune.sagemaker.inside.nodes", ray, str(len(hosts.names))]
    waiting, deadline = Child(words, variables=environ, folder=layout.work), _deadline(COMING_S)
    try:
        while not waiting.wait(0.5):
            if node.exit_code is not None:
                raise ExecutorError(f"Ray ended on {hosts.current}: {' '.join(node.said[-3:])}")
            if stop.is_set() or time.monotonic() > deadline:
                away = set(hosts.names[1:]) - meeting.present
                who = ", ".join(sorted(away)) or "Ray on them"
                raise ExecutorError(f"not all hosts of the job came together: without {who}")
        if waiting.exit_code:
            raise ExecutorError(f"Ray can't be reached: {' '.join(waiting.said[-3:])}")
    finally:
        waiting.end(0.0)


def _until_dismissed(line: Line, node: Child, stop: Notice) -> int:
    while (code := line.code(0.5)) is None:
        if node.exit_code is not None:
            raise ExecutorError(f"Ray ended on this host: {' '.join(node.said[-3:])}")
        if not stop.left_s(DISMISSED_S):
            raise ExecutorError("the job is stopped, and its first host said nothing in time")
    return code


def _deadline(seconds: float) -> float:
    return time.monotonic() + seconds
