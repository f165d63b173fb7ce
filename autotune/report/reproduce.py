"""The command that runs a study again, and what it can't say."""

import hashlib
import shlex

from autotune.exporters.text import shown
from autotune.machines import LOCAL
from autotune.model import Conclusion, Samples, Study
from autotune.space.knob import Searched

_BATCH_OPTIONS = {
    Samples.COUNTED: "--global-batch",
    Samples.GIVEN: "--samples-per-step",
    Samples.STEPS: "",
}
"""How the samples of a script's step are told."""


def command(study: Study) -> str:
    """`autotune run …` with everything that was asked of `study`."""
    spec, target = study.spec, study.spec.target
    words = ["autotune", "run"]
    if target.is_simulated:
        words += ["--executor", "simulated", "--landscape", spec.landscape]
    else:
        words += ["--instance", _instance(target.instance)]
    script = spec.own_workload.script if spec.own_workload else None
    words += [] if script else ["--workload", target.workload]
    words += ["--nproc", str(target.ranks_per_node)]
    batch = _BATCH_OPTIONS[script.samples] if script else "--global-batch"
    words += [batch, str(target.global_batch)] if batch else []
    words += ["--seed", str(spec.seed)]
    optional = {
        "--budget": None if spec.budget_s is None else f"{spec.budget_s:g}s",
        "--trials": None if spec.max_trials is None else str(spec.max_trials),
        "--window": None if spec.window_s is None else f"{spec.window_s:g}s",
        "--space": None if spec.space == Searched.DEFAULT else spec.space,
        "--strategy": spec.search,
        # A run of before that was refused may have knobs in both.
        "--only": ",".join(name for name in spec.only if name not in spec.pinned) or None,
    }
    for name, value in optional.items():
        words += [] if value is None else [name, value]
    for name, setting in spec.pinned.items():
        words += ["--set", f"{name}={shown(setting)}"]
    words += ["--allow-lossy"] * spec.allow_lossy
    variables = [f"{name}={value}" for name, value in spec.environment.items()]
    started = shlex.join([*(["env", *variables] if variables else []), *words])
    return f"{started} -- {script.command(script.arguments)}" if script else started


def commands(study: Study) -> list[str]:
    """The study again, and its answer in use."""
    target = study.spec.target
    if target.is_simulated or study.conclusion is not Conclusion.IMPROVED:
        return [command(study)]
    return [
        command(study),
        f"{best_command(study)} > best.yaml",
        "autotune export best.yaml --to env > best.env",
        "autotune verify best.yaml",
    ]


def best_command(study: Study) -> str:
    """What prints the answer for the target of `study`."""
    target = study.spec.target
    best = ["autotune", "best", "--instance", _instance(target.instance)]
    best += ["--workload", target.workload, "--global-batch", str(target.global_batch)]
    return shlex.join(best)


def notes(study: Study) -> list[str]:
    """What has to be the same beside the command."""
    spec = study.spec
    found = [
        "The same seed proposes the same candidates as long as the readings lead it the same way; "
        "noise in a reading may lead it elsewhere."
    ]
    files = {
        "--space": (spec.space, spec.space_text),
        "--instances": ("a file", spec.instances_text),
        "--landscape": (spec.landscape, spec.landscape_text),
    }
    for option, (name, text) in files.items():
        if text:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            found.append(f"{option} was {name}, whose content has the SHA-256 {digest}.")
    own = spec.own_workload
    if own and own.script:
        found.append(f"The script is started in the folder {own.script.folder}.")
    if own and own.digest:
        found.append(f"The workload is in {own.file}, SHA-256 {own.digest}.")
    return found


def _instance(name: str) -> str:
    """A machine that is no catalogue entry has a name of its own, and is `local` there."""
    return LOCAL if name.startswith(f"{LOCAL}-") else name
