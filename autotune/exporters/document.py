"""The YAML document of a best configuration; `docs/best_yaml.md` describes it field by field.

One table, `_ROWS`, says where each field of the model stands in the document. Writing, reading and
the names in error messages all follow it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from autotune.errors import ABSENT, FieldError
from autotune.exporters.checks import check, check_target
from autotune.exporters.possible import check_possible
from autotune.exporters.text import comment, scope, summary
from autotune.exporters.yaml_text import Quoted, dump
from autotune.model import SCHEMA, BestConfiguration, Target, TrainingSettings, decode, encode
from autotune.yaml_reader import Source, read_text, read_yaml

_MEASURED = "measured"
_DIGITS = 6
"""Significant digits of measured figures: more than any measurement here has."""

_PARALLELISM = {
    field.name: field.default
    for field in fields(TrainingSettings)
    if field.name not in ("micro_batch", "accumulation_steps")
}
_ROWS = (
    ("schema", ""),
    ("for.instance", "target.instance"),
    ("for.nodes", "target.nodes"),
    ("for.ranks_per_node", "target.ranks_per_node"),
    ("for.workload", "target.workload"),
    ("for.global_batch", "target.global_batch"),
    ("conclusion", "conclusion"),
    ("settings.environment", "environment"),
    *((f"settings.parallelism.{name}", f"settings.{name}") for name in _PARALLELISM),
    ("settings.batch.global", ""),
    ("settings.batch.micro", "settings.micro_batch"),
    ("settings.batch.accumulation_steps", "settings.accumulation_steps"),
    ("evidence.kind", ""),
    ("evidence.device", "evidence.device"),
    ("evidence.trials", "evidence.trials"),
    ("evidence.baseline", "evidence.baseline"),
    ("evidence.winner", "evidence.winner"),
    ("evidence.ratio", "evidence.ratio"),
    ("evidence.reason", "evidence.reason"),
    ("evidence.pinned", "evidence.pinned"),
    ("evidence.only", "evidence.only"),
    ("evidence.shared_with", "evidence.shared_with"),
    ("script", "evidence.script"),
    ("fingerprint", "evidence.fingerprint"),
    ("versions", "versions"),
    ("created", "created_at"),
    ("run", "run_id"),
)
"""Path in the document, path in the model; an empty one is a field of the document alone."""

_MEASUREMENTS = ("evidence.baseline", "evidence.winner", "evidence.ratio")
_OPTIONAL: dict[str, Any] = {
    f"settings.parallelism.{name}": encode(default)
    for name, default in _PARALLELISM.items()
    if default is not MISSING and name != "strategy"
}
_OPTIONAL |= {"evidence.pinned": {}, "evidence.only": [], "evidence.shared_with": []}
_OPTIONAL |= {"fingerprint": None, "script": None}
"""Left out where they have their default."""


def to_yaml(best: BestConfiguration) -> str:
    """The document's text. Raises FieldError for a configuration that makes no sense."""
    document = to_document(best)
    for section in (document["settings"]["environment"], document["versions"]):
        section.update({name: Quoted(value) for name, value in section.items()})
    return _head(best) + dump(document)


def to_document(best: BestConfiguration) -> dict[str, Any]:
    """The document as data, for JSON too. Raises FieldError as `to_yaml`."""
    check(best)
    data = encode(best)
    own = {
        "schema": SCHEMA,
        "settings.batch.global": best.target.global_batch,
        "evidence.kind": _MEASURED,
    }
    values = {path: _get(data, at) if at else own[path] for path, at in _ROWS}
    values |= {path: _rounded(values[path]) for path in _MEASUREMENTS}
    return _assembled(values)


def settings_document(
    settings: TrainingSettings, environment: Mapping[str, str], ranks: int
) -> dict[str, Any]:
    """The document's section `settings` alone, for one that isn't an answer."""
    data = {"settings": encode(settings), "environment": dict(environment)}
    own = {"settings.batch.global": settings.global_batch(ranks)}
    section: dict[str, Any] = _assembled(
        {
            path: _get(data, at) if at else own[path]
            for path, at in _ROWS
            if path.startswith("settings.")
        }
    )["settings"]
    return section


def target_document(target: Target) -> dict[str, Any]:
    """The document's section `for` alone."""
    return {
        path.removeprefix("for."): getattr(target, at.removeprefix("target."))
        for path, at in _ROWS
        if path.startswith("for.")
    }


def from_yaml(text: str, name: str) -> BestConfiguration:
    """The configuration in `text`; `name` is the file's name in messages.

    Raises UserError, with file and line, for anything that isn't a complete, sensible document.
    """
    source = read_yaml(text, name)
    try:
        data = _to_model(source)
        check_target(decode(Target, data["target"], "target"))
        best = decode(BestConfiguration, data)
        check(best)
        check_possible(best)
    except FieldError as error:
        raise source.error(_in_document(error)) from None
    return best


def read(path: Path) -> BestConfiguration:
    """The configuration in the file at `path`. Raises UserError."""
    return from_yaml(read_text(path), str(path))


def _to_model(source: Source) -> dict[str, Any]:
    data = source.data
    if not isinstance(data, dict):
        raise FieldError("document", data, "has to be a mapping that starts with its schema")
    _check_schema(data)
    _check_keys(data)
    _check_own_fields(data)
    model: dict[str, Any] = {}
    for path, model_path in _ROWS:
        value = _get(data, path)
        if model_path and not (value is None and path in _OPTIONAL):
            _put(model, model_path, value)
    return model


def _check_schema(data: dict[str, Any]) -> None:
    schema = data.get("schema")
    if schema != SCHEMA:
        hint = "it may come from another version of autotune" if schema else ""
        raise FieldError("schema", schema, "can't be read", alternatives=[SCHEMA], hint=hint)


def _check_keys(data: dict[str, Any]) -> None:
    """Every section is there, holds what it has to, and nothing else."""
    for section, expected in _sections().items():
        found = _get(data, section) if section else data
        prefix = f"{section}." if section else ""
        if not isinstance(found, dict):
            raise FieldError(section, found, f"has to be a mapping of {', '.join(expected)}")
        for key in found:
            if key not in expected:
                raise FieldError(f"{prefix}{key}", key, "is unknown", alternatives=expected)
        for key in expected:
            if key not in found and f"{prefix}{key}" not in _OPTIONAL:
                raise FieldError(f"{prefix}{key}", ABSENT, "is required but missing")


def _sections() -> dict[str, list[str]]:
    """Section to the keys in it, outermost first; the document itself is the empty section."""
    sections: dict[str, list[str]] = {"": []}
    for path, _ in _ROWS:
        parts = path.split(".")
        for depth, key in enumerate(parts):
            keys = sections.setdefault(".".join(parts[:depth]), [])
            if key not in keys:
                keys.append(key)
    return sections


def _check_own_fields(data: dict[str, Any]) -> None:
    batch, total = data["settings"]["batch"]["global"], data["for"]["global_batch"]
    if batch != total:
        raise FieldError("settings.batch.global", batch, f"has to equal for.global_batch, {total}")
    kind = data["evidence"]["kind"]
    if kind != _MEASURED:
        raise FieldError("evidence.kind", kind, "is not known", alternatives=[_MEASURED])


def _in_document(error: FieldError) -> FieldError:
    """The error with the path that its field has in the document, and a hint on quotes."""
    field, hint = error.field, error.hint
    for path, model_path in _ROWS:
        if model_path and (field == model_path or field.startswith(f"{model_path}.")):
            field = path + field.removeprefix(model_path)
            break
    if error.rule == "has to be text" and error.value is not None:
        hint = "put it in quotes"
    return FieldError(field, error.value, error.rule, alternatives=error.alternatives, hint=hint)


def _assembled(values: Mapping[str, Any]) -> dict[str, Any]:
    """A document of paths with their values, without those that are at their default."""
    document: dict[str, Any] = {}
    for path, value in values.items():
        if path not in _OPTIONAL or value != _OPTIONAL[path]:
            _put(document, path, value)
    return document


def _get(data: dict[str, Any], path: str) -> Any:
    value: Any = data
    for key in path.split("."):
        value = value.get(key)
    return value


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        data = data.setdefault(key, {})
    data[last] = value


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _head(best: BestConfiguration) -> str:
    return "".join(f"{line}\n" for line in _head_lines(best))


def _head_lines(best: BestConfiguration) -> Iterator[str]:
    yield comment(summary(best))
    narrowed = scope(best.evidence.pinned, best.evidence.only)
    if narrowed:
        yield comment(f"The study was narrowed: {narrowed}.")
    yield comment('To use it: autotune.load("FILE") in a training script, or')
    yield comment("`autotune export FILE --to env|torchrun|slurm|...` for a launch.")
