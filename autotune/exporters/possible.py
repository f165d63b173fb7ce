"""Whether what a document asks for can be, by the rules that searches follow.

Autotune writes nothing else; a person who edits a file may.
"""

from collections.abc import Iterator

from autotune.errors import FieldError
from autotune.model import DEFAULT, BestConfiguration, DeviceKind, Fingerprint, KnobValue, encode
from autotune.space.catalogue import load_knobs
from autotune.space.conditions import unmet
from autotune.space.facts import Facts
from autotune.space.gpus import compute_capability
from autotune.space.knob import Knob, TargetKind
from autotune.space.nccl import NcclVersion, Network, problem, unread
from autotune.space.nccl_rules import job, starved
from autotune.space.options import absence
from autotune.space.rules import RULES

_FORCING = ("NCCL_ALGO", "NCCL_PROTO")


def check_possible(best: BestConfiguration) -> None:
    """Raises FieldError, with the field's path in the model, for what can't be in effect."""
    for error in (*_variables(best), *_arguments(best)):
        raise error


def _variables(best: BestConfiguration) -> Iterator[FieldError]:
    """What NCCL of the version that the document names can't do with its variables."""
    text = best.versions.get("nccl", "")
    if not text:
        return
    version = NcclVersion.parse(text)
    for name, value in best.environment.items():
        field = f"environment.{name}"
        if (nothing := unread(version, name)) is not None:
            yield FieldError(field, value, f"has no effect: {nothing.why}", hint=nothing.instead)
        elif name.startswith("NCCL_") and (why := problem(version, name, value)):
            yield FieldError(field, value, f"can't be: {why}")
    forced = {name: best.environment[name] for name in _FORCING if name in best.environment}
    if forced and (seen := best.evidence.fingerprint):
        here = job(encode(best.settings), _facts(best, seen))
        if reason := starved(here, forced):
            name = next(iter(forced))
            rule = f"{reason} with strategy {best.settings.strategy.value}"
            yield FieldError(f"environment.{name}", forced[name], rule)


def _arguments(best: BestConfiguration) -> Iterator[FieldError]:
    """Settings that don't exist on the machine that the document names, or beside each other."""
    seen = best.evidence.fingerprint
    if seen is None:
        return
    facts = _facts(best, seen)
    asked = encode(best.settings)
    values: dict[str, KnobValue] = {}
    for knob in load_knobs([]):
        values[knob.name] = DEFAULT
        if knob.sets.kind is TargetKind.ARGUMENT:
            value = asked[knob.sets.name]
            values[knob.name] = DEFAULT if value is None else value
            why = "" if _is_default(knob, value) else _fault(knob, value, values, facts)
            if why:
                yield FieldError(f"settings.{knob.sets.name}", value, f"can't be here: {why}")


def _is_default(knob: Knob, value: KnobValue | None) -> bool:
    return value is None or value == knob.default


def _fault(knob: Knob, value: KnobValue, values: dict[str, KnobValue], facts: Facts) -> str:
    """Not whether the value is listed: a person's own file of knobs may list others."""
    choice = knob.choice(value)
    reason = absence(knob, values, facts)
    reason = reason or (unmet(choice.when, values, facts) if choice else "")
    return reason or (RULES[knob.rule].judge(value, values, facts) if knob.rule else "")


def _facts(best: BestConfiguration, seen: Fingerprint) -> Facts:
    """What was known of the machine when the study was made."""
    return Facts(
        device=best.evidence.device,
        nodes=best.target.nodes,
        ranks_per_node=best.target.ranks_per_node,
        global_batch=best.target.global_batch,
        torch=best.versions.get("torch", ""),
        nccl=best.versions.get("nccl", "") if best.evidence.device is DeviceKind.CUDA else "",
        plugin=best.versions.get("plugin", ""),
        compute_capability=compute_capability(seen.gpu) if seen.gpu else 0,
        nvlink=seen.links in ("nvlink", "nvswitch"),
        nvswitch=seen.links == "nvswitch",
        between_nodes=Network(seen.network),
        nics=seen.nics,
        cores=seen.cores,
        numa_nodes=seen.numa_nodes,
        blocks=seen.shapes.get("layers", 0),
    )
