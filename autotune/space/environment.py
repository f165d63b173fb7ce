"""Names of variables where knobs are meant, and what the user's environment already decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import FieldError
from autotune.model.secrets import redacted
from autotune.model.variables import value_fault
from autotune.space.facts import Facts
from autotune.space.knob import Knob, TargetKind
from autotune.space.nccl import (
    Explanation,
    NcclVersion,
    Surroundings,
    harmful,
    placebo,
    unread,
)
from autotune.space.nccl.names import SINCE
from autotune.space.nccl_rules import job, starved
from autotune.space.plugin import plugin_version

_THREADS = "OMP_NUM_THREADS"
"""The executor sets it for each rank, whatever it is in the environment."""
_PREFIXES = ("NCCL_", "OFI_NCCL_", "FI_", "RDMAV_")


@dataclass(frozen=True, kw_only=True)
class Named:
    """A knob that a person named, and what they should know of the name that they used."""

    knob: Knob
    notice: str = ""


def named(name: str, knobs: Sequence[Knob], flag: str) -> Named:
    """The knob called `name`, or the one that sets the variable `name`.

    Raises FieldError for other names; one that no NCCL reads is explained.
    """
    for knob in knobs:
        if name == knob.name or knob.all_variables == (name,):
            return Named(knob=knob)
        if name in knob.all_variables:
            rule = f"is only a part of what {knob.name} sets"
            raise FieldError(flag, name, rule, hint=f"use {flag} {knob.name}")
    explanation = placebo(name)
    if explanation is None:
        raise FieldError(
            flag, name, "is no knob", alternatives=[knob.name for knob in knobs], hint=_real(name)
        )
    for knob in knobs:
        if explanation.knob == knob.name or explanation.variable in knob.all_variables:
            return Named(knob=knob, notice=f"{flag} {name} is taken as {knob.name}: {_why(name)}")
    raise FieldError(flag, name, f"does nothing: {explanation.why}", hint=explanation.instead)


def holding(knobs: Iterable[Knob], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environment` that decide in a knob's place.

    They are a part of the answer. Raises FieldError for a value that can't be one.
    """
    names = {name for knob in knobs for name in knob.all_variables} - {_THREADS}
    found = {name: environment[name] for name in sorted(names) if name in environment}
    for name, value in found.items():
        if rule := value_fault(name, value):
            hint = f"unset {name}, or take its knob out of the space"
            raise FieldError(f"{name} in the environment", redacted(value), rule, hint=hint)
    return found


def held(knobs: Iterable[Knob], pinned: Mapping[str, object], facts: Facts) -> dict[str, str]:
    """Knob to the variable of the environment that holds it, for knobs that nobody pinned."""
    found: dict[str, str] = {}
    for knob in knobs:
        present = [name for name in knob.all_variables if name in facts.environment]
        if present and knob.name not in pinned:
            found[knob.name] = present[0]
    return found


def contradiction(knob: Knob, written: Mapping[str, str], facts: Facts) -> str:
    """Which variable of the environment still decides when a pin has written its own."""
    if knob.sets.kind is not TargetKind.LOGICAL:
        return ""
    others = [n for n in knob.variables if n in facts.environment and n not in written]
    return ", ".join(f"{name}={facts.environment[name]}" for name in others)


def notices(environment: Mapping[str, str], facts: Facts) -> list[str]:
    """What a person should know of the variables they have set: those that do nothing, or harm."""
    version = NcclVersion.parse(facts.nccl) if facts.nccl else None
    around = Surroundings(
        version=version, plugin=plugin_version(facts.plugin), network=facts.network
    )
    found: list[Explanation | None] = []
    for name, value in sorted(environment.items()):
        if name.startswith(_PREFIXES):
            nothing = unread(version, name) if version else placebo(name)
            found.append(nothing or harmful(name, value, around))
    lines = [
        f"{e.name}={environment[e.name]} in the environment: {e.why}. {e.instead}"
        for e in found
        if e is not None
    ]
    if _THREADS in environment:
        lines.append(
            f"{_THREADS}={environment[_THREADS]} in the environment: ranks have their share of the "
            f"cores instead. Set it with --set {_THREADS}={environment[_THREADS]}."
        )
    return lines + _forced(environment, facts)


def _forced(environment: Mapping[str, str], facts: Facts) -> list[str]:
    """What NCCL_ALGO and NCCL_PROTO in the environment do to the job as a whole."""
    both = {n: environment[n] for n in ("NCCL_ALGO", "NCCL_PROTO") if n in environment}
    if not both or not facts.nccl or facts.ranks == 1:
        return []
    text = " ".join(f"{name}={value}" for name, value in both.items())
    lines = []
    if facts.plugin_forces_simple and both.get("NCCL_PROTO", "simple").lower() != "simple":
        why = f"{facts.why_simple}: other protocols may corrupt data here"
        lines.append(f"{text} in the environment: {why}. Remove NCCL_PROTO.")
    for strategy in ("ddp", "fsdp_full"):
        reason = starved(job({"strategy": strategy}, facts), both)
        lines += [f"{text} in the environment {reason} with strategy {strategy}."] if reason else []
    return lines


def _why(name: str) -> str:
    explanation = placebo(name)
    return explanation.why if explanation else ""


def _real(name: str) -> str:
    if name not in SINCE:
        return "autotune knobs --why lists them"
    return f"set {name} in the environment: it then holds in every trial"
