"""The contract's rules about records, shared by all stores."""

import dataclasses
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

from autotune.model import BestConfiguration, Job, Study, Target, Trial, decode, encode

Record = TypeVar("Record", bound=Study | Trial | BestConfiguration | Job)


def as_stored(record: Record) -> Record:
    """A copy that shares nothing with `record`, as a database would give it back."""
    data = encode(record)
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, datetime):
            data[field.name] = value.astimezone(UTC)
    return decode(type(record), data)


def same_content(one: Study | Trial | Job, other: Study | Trial | Job) -> bool:
    """Whether two records say the same: NaN equals NaN, True isn't 1, an instant has any zone."""
    return _canonical(one) == _canonical(other)


def describe(record: Study | Trial | Job) -> str:
    """How messages name the record."""
    if isinstance(record, Trial):
        return f"trial {record.number} of run {record.run_id!r}"
    if isinstance(record, Job):
        return f"job {record.name!r}"
    return f"run {record.run_id!r}"


def oldest_first(studies: Iterable[Study]) -> list[Study]:
    """Studies in the order that stores list them in."""
    return sorted(studies, key=lambda study: (study.created_at, study.run_id))


def jobs_in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs in the order that stores list them in."""
    return sorted(jobs, key=lambda job: (job.submitted_at, job.name))


def by_target(bests: Iterable[BestConfiguration]) -> list[BestConfiguration]:
    """Answers in the order that stores list them in; databases differ in how they sort text."""
    return sorted(bests, key=lambda best: target_key(best.target))


def target_key(target: Target) -> tuple[str, int, int, str, int]:
    """The fields of `target`, to sort by."""
    return (
        target.instance, target.nodes, target.ranks_per_node, target.workload, target.global_batch,
    )  # fmt: skip


def _canonical(record: Study | Trial | Job) -> str:
    return json.dumps(encode(as_stored(record)), sort_keys=True)
