"""Finds out what a user's script is told and does, by starting it once for some steps."""

import ast
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

from autotune.errors import ABSENT, FieldError, UserError, closest
from autotune.executors.base import Executor, Launch, LaunchEnd
from autotune.model import (
    BestConfiguration,
    Measurement,
    MeasurementPlan,
    Outcome,
    Samples,
    Script,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
    UserWorkload,
)
from autotune.model.protocol import Verdict
from autotune.model.script import OWN, SETTINGS
from autotune.model.user_workload import digest_of

PLAN = MeasurementPlan(min_warmup_steps=4, max_warmup_steps=4, windows=1, window_s=0.001)
"""Steps enough to see what one of them reads."""
LIMIT_S = 600.0
_LAUNCHERS = ("torchrun", "accelerate", "python", "python3", "deepspeed", "lightning", "srun", "sh")
_LAYOUT = "parallelize"
"""What lays a model out by all settings, in `autotune.current()`."""
_BATCH = ("micro_batch", "accumulation_steps")


def read_script(words: Sequence[str], samples_per_step: int | None) -> UserWorkload:
    """The script in `words`, what follows `--` on the command line; nothing is started.

    Raises UserError for what is no Python script, and for misspelt settings in its arguments.
    """
    is_module = words[0] == "-m"
    program, *arguments = (words[1:] if is_module else words) or [""]
    if not program:
        raise FieldError(
            "--", program, "names no module" if is_module else "names no script",
            hint="autotune run … -- train.py [arguments], or -- -m package.module [arguments]",
        )  # fmt: skip
    folder = Path.cwd()
    file = _module_file(program, folder) if is_module else _file(program, folder)
    script = Script(
        program=program, is_module=is_module, arguments=tuple(arguments), folder=str(folder),
        digest=digest_of(file) if file else "",
    )  # fmt: skip
    told = tuple(dict.fromkeys((*script.named, *_asked_for(file))))
    script = replace(script, told=told)
    return UserWorkload(
        name=_name(script), parameters=0, blocks=0, block="", global_batch=samples_per_step,
        module="", folder=str(folder), file=str(file) if file else "", digest=script.digest,
        script=script,
    )  # fmt: skip


def _name(script: Script) -> str:
    """Its answers are kept under this name: another one for other arguments or another folder."""
    what = json.dumps([script.folder, script.is_module, script.program, script.arguments])
    return f"{script.program}#{hashlib.sha256(what.encode()).hexdigest()[:6]}"


def _file(program: str, folder: Path) -> Path:
    path = folder / program
    if path.is_file() and path.suffix not in (".sh", ".bash", ".yaml", ".yml"):
        return path.absolute()
    if Path(program).name in _LAUNCHERS:
        raise FieldError(
            "--", program, "is a launcher, and autotune starts the ranks itself",
            hint="give it what each rank runs: autotune run … -- train.py [arguments]",
        )  # fmt: skip
    rule = "is not a Python script" if path.is_file() else "is no file here"
    near = [str(Path(program).parent / one.name) for one in sorted(path.parent.glob("*.py"))]
    meant = closest(program, near)
    raise FieldError("--", program, rule + (f"; did you mean {meant!r}?" if meant else ""))


def _module_file(name: str, folder: Path) -> Path | None:
    """The file of a module in `folder`; None for one that is installed."""
    base = folder / Path(*name.split("."))
    for path in (base.with_name(f"{base.name}.py"), base / "__main__.py"):
        if path.is_file():
            return path.absolute()
    return None


def _asked_for(file: Path | None) -> Iterator[str]:
    """Settings that the script reads from `autotune.current()`, by its source."""
    if file is None:
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # starting it shows it better
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
              for alias in node.names if node.module == "autotune"}  # fmt: skip
    if "current" not in names:
        return
    if "accumulation" in names:
        yield "accumulation_steps"
    for name in SETTINGS:
        if name in names or (_LAYOUT in names and name not in _BATCH):
            yield name


def workload_of(best: BestConfiguration) -> UserWorkload | None:
    """The script that `best` is for, as it was; None if it is for none."""
    script = best.evidence.script
    if script is None:
        return None
    folder = Path(script.folder)
    file = None
    if script.digest:
        found = _module_file(script.program, folder) if script.is_module else None
        file = found or folder / script.program
    return UserWorkload(
        name=best.target.workload, parameters=0, blocks=0, block="", module="",
        global_batch=best.target.global_batch, folder=script.folder,
        file=str(file) if file else "", digest=script.digest, script=script,
    )  # fmt: skip


def check_told(script: Script, samples: int | None) -> None:
    """Raise FieldError if the arguments need a batch that nobody has named."""
    needs = [name for name in script.named if name in ("micro_batch", "global_batch")]
    if samples is None and needs:
        raise FieldError(
            "--global-batch", ABSENT, f"has to be given: {{{needs[0]}}} follows from it"
        )


def probe(
    workload: UserWorkload,
    script: Script,
    *,
    settings: TrainingSettings,
    environment: dict[str, str],
    executor: Executor,
    nodes: int,
    ranks_per_node: int,
    given: int | None,
    counts: bool,
    folder: Path,
    cancel: Event,
) -> UserWorkload:
    """`workload` with what starting it once has shown, where and as its trials will run.

    `given` is the global batch if the user has named it, `counts` whether it is to be held against
    what the script reads. Raises UserError with the script's own error and line if it fails, or
    doesn't do what it is told.
    """
    sys.stderr.write(f"running {script.program} for some steps, to learn what it does\n")
    if given is None:
        script = replace(script, samples=Samples.STEPS)
    spec = TrialSpec(
        trial_id=f"probe-{script.program}", workload=workload.name, script=script,
        settings=settings, environment=environment, device=executor.machine().device, plan=PLAN,
    )  # fmt: skip
    launch = Launch(
        spec=spec, nodes=nodes, ranks_per_node=ranks_per_node, directory=folder,
        time_limit_s=LIMIT_S,
    )  # fmt: skip
    end = executor.run(launch, lambda _: Verdict.GO, cancel)
    if cancel.is_set():
        return workload
    if end.outcome is not Outcome.COMPLETED or not isinstance(end.measurement, Measurement):
        raise _failed(script, end)
    ranks = nodes * ranks_per_node
    return _learnt(workload, script, end.measurement, ranks, given, counts=counts)


def _failed(script: Script, end: LaunchEnd) -> UserError:
    shown = f"\n{end.log_tail}" if end.log_tail else ""
    return UserError(
        f"{script.program}: {end.outcome.value}: {end.reason}{shown}",
        hint=f"the whole log: {end.log_path}" if end.log_path else "",
    )


def _learnt(
    workload: UserWorkload,
    script: Script,
    seen: Measurement,
    ranks: int,
    given: int | None,
    *,
    counts: bool,
) -> UserWorkload:
    read = int(seen.effective.get("samples_read") or 0)
    if given is not None and counts and read not in (0, given):
        raise FieldError(
            "--global-batch", given,
            f"is not what {script.program} trains on: its ranks read {read} samples for a step",
            hint=f"--global-batch {read}; or --samples-per-step {given} if a batch's rows aren't "
            "its samples",
        )  # fmt: skip
    samples, batch = Samples.STEPS, ranks
    if given is not None:
        samples, batch = (Samples.COUNTED if counts and read else Samples.GIVEN), given
    elif read:
        samples, batch = Samples.COUNTED, read
    own = {name: seen.effective[name] for name in OWN if name in seen.effective}
    known = {n: v for n, v in own.items() if n not in script.told and _is_layout(own)}
    script = replace(script, samples=samples, own=known)
    return replace(workload, global_batch=batch, parameters=seen.parameters, script=script)


def _is_layout(own: Mapping[str, object]) -> bool:
    return own.get("strategy") in [one.value for one in ShardingStrategy]


def script_notices(workload: UserWorkload | None) -> list[str]:
    """What a person should know of how their script is measured."""
    script = workload.script if workload else None
    if script is None:
        return []
    found = []
    if script.samples is Samples.STEPS:
        found.append(
            f"the samples of a step of {script.program} can't be counted: a step of a rank is "
            "called a sample below; name their number with --samples-per-step"
        )
    if "strategy" not in (*script.told, *script.own):
        found.append(
            f"{script.program} uses neither DistributedDataParallel nor fully_shard: how it "
            "divides its model isn't known, and called ddp below"
        )
    if not script.told:
        found.append(
            f"{script.program} is told nothing: only variables of the environment are searched"
        )
    return found
