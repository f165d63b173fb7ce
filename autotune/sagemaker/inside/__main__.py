"""One host's part in a training job: `python -m autotune.sagemaker.inside`, started by start.py."""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

from autotune.errors import AutotuneError, FieldError, UserError
from autotune.sagemaker.inside.cluster import gather, join
from autotune.sagemaker.inside.head import lead
from autotune.sagemaker.inside.hosts import Hosts, read_hosts
from autotune.sagemaker.inside.job import Job, read_job
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.notice import Notice

_EXIT_FAILED = 1
_EXIT_USAGE = 2


def main(environ: Mapping[str, str]) -> int:
    """The exit code that the container ends with."""
    layout, stop = Layout.of(environ), Notice()
    _stop_on_term(stop)
    try:
        job, hosts = read_job(layout.job), _hosts(layout, environ)
        if len(hosts.names) != job.nodes:
            raise FieldError(
                f"{layout.job}: nodes", job.nodes, f"but the job has {len(hosts.names)} hosts"
            )
        return _part(job, hosts, layout, environ, stop)
    except AutotuneError as error:
        text = f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else "")
        say(text)
        with suppress(OSError):
            layout.tell_failure(text)
        return _EXIT_USAGE if isinstance(error, UserError) else _EXIT_FAILED


def _part(job: Job, hosts: Hosts, layout: Layout, environ: Mapping[str, str], stop: Notice) -> int:
    for folder in (layout.work, layout.home):
        folder.mkdir(parents=True, exist_ok=True)
    variables = {**environ, **hosts.variables(environ), "AUTOTUNE_HOME": str(layout.home)}
    if len(hosts.names) == 1:
        return lead(job, layout, variables, stop, say)
    if hosts.is_head:
        return gather(
            job, hosts, layout, variables, stop,
            lambda environ, address: lead(job, layout, environ, stop, say, address),
        )  # fmt: skip
    return join(job, hosts, layout, variables, stop, say)


def _hosts(layout: Layout, environ: Mapping[str, str]) -> Hosts:
    try:
        text = layout.hosts.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = None
    except (OSError, UnicodeError) as error:
        raise UserError(f"{layout.hosts}: can't be read: {error}") from None
    return read_hosts(text, environ, str(layout.hosts))


def _stop_on_term(stop: Notice) -> None:
    """TERM is what a spot instance gets two minutes before its end, and a job that is stopped."""

    def set_(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, set_)


def say(text: str) -> None:
    """To the job's log."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(os.environ))
