"""The arguments of the `autotune run` inside: what was asked for here, said again. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.model import StudySpec
from autotune.request import Request

SPACE_FILE = "autotune_space.yaml"
INSTANCES_FILE = "autotune_instances.yaml"
"""In the job's work folder."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What isn't in a Request: words of the command line that the container gets as they are."""

    script: Sequence[str] = ()
    samples_per_step: int | None = None
    window: str | None = None
    cold: bool = False
    live: bool = False


def inside_arguments(request: Request, spec: StudySpec, asked: Asked) -> list[str]:
    """Without what the container adds: where trials run, where records go, which run it is."""
    words = list(_options(request, spec, asked))
    if request.allow_lossy:
        words.append("--allow-lossy")
    if asked.cold:
        words.append("--cold")
    if asked.live:
        words.append("--live")
    if asked.script:
        words += ["--", *asked.script]
    return words


def files_of(request: Request) -> dict[str, bytes]:
    """The user's files that the arguments name, by their names in the work folder."""
    found = {}
    if request.space.text:
        found[SPACE_FILE] = request.space.text.encode()
    if request.instances:
        found[INSTANCES_FILE] = request.instances_text.encode()
    return found


def _options(request: Request, spec: StudySpec, asked: Asked) -> Iterator[str]:
    values = {
        "--instance": request.instance,
        "--workload": None if asked.script else request.workload,
        "--nproc": request.nproc,
        "--global-batch": request.global_batch,
        "--samples-per-step": asked.samples_per_step,
        "--budget": None if spec.budget_s is None else f"{spec.budget_s:.0f}s",
        "--trials": request.max_trials,
        "--seed": request.seed,
        "--window": asked.window,
        "--strategy": request.strategy,
        "--space": SPACE_FILE if request.space.text else request.space.name,
        "--instances": INSTANCES_FILE if request.instances else None,
        "--only": ",".join(request.only) or None,
    }
    for name, value in values.items():
        if value is not None:
            yield from (name, str(value))
    for knob, value in request.pinned.items():
        yield from ("--set", f"{knob}={value}")
