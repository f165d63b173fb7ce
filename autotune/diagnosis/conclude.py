"""From all logs' findings to the one that is the root, and what it means."""

from collections.abc import Collection, Sequence

from autotune.diagnosis.catalogue import CATALOGUE
from autotune.diagnosis.diagnosis import Diagnosis
from autotune.diagnosis.log import Finding
from autotune.diagnosis.progress import Progress, behind
from autotune.diagnosis.signature import Role

_FAILED = (Role.SYMPTOM, Role.WAITER)
"""Roles that show that something did fail, so that a clue may be why."""
_LAST_GASPS = ("aborted", "ended-by-sigterm")
"""Ends that torchrun may observe first although another rank is the root: a rank's watchdog aborts
it when it has waited long enough."""


def conclude(
    findings: Sequence[Finding], said: Sequence[Progress], ranks: Collection[int]
) -> Diagnosis | None:
    """The diagnosis, or None if nothing is known to have failed.

    `findings` are in the order of the logs, and of their lines within each; `ranks` are all that
    are known to exist.
    """
    root = min((f.rank for f in findings if _is_root(f) and f.rank is not None), default=None)
    pool = _nearest(findings)
    if not pool:
        return None
    found = _first(pool, root)
    victims = _ranks(findings, Role.WAITER, Role.VICTIM)
    if found.role is Role.WAITER:
        suspect, why = _suspect(findings, said, ranks)
        return _diagnosis(found, suspect, victims, why)
    is_torchruns = found.rank is None and found.role not in (Role.MACHINE, Role.VICTIM)
    rank = root if is_torchruns else found.rank
    return _diagnosis(found, rank, victims)


def _is_root(finding: Finding) -> bool:
    return finding.is_root and finding.signature.name not in _LAST_GASPS


def _nearest(findings: Sequence[Finding]) -> list[Finding]:
    """The findings whose role is nearest to the root, of those that count."""
    lost = {f.rank for f in findings if f.role in (Role.WAITER, Role.VICTIM)}
    failed = any(finding.role in _FAILED for finding in findings)
    counting = [
        finding
        for finding in findings
        if not (finding.role is Role.CLUE and not failed)
        # A rank that lost others ends too.
        and not (finding.role is Role.ENDED and finding.rank in lost)
    ]
    role = min((finding.role for finding in counting), default=None)
    return [finding for finding in counting if finding.role is role]


def _first(pool: Sequence[Finding], root: int | None) -> Finding:
    """Of findings of one role, the one to name.

    A log's lines are in the order of time, so what is written first is the cause of what follows.
    Symptoms, and lines of different logs, have no such order: the more specific counts.
    """
    if pool[0].role is Role.SYMPTOM:
        return min(pool, key=lambda f: (_misses(f, root), CATALOGUE.order[f.signature.name]))
    by_log: dict[str, Finding] = {}
    for finding in sorted(pool, key=lambda f: _misses(f, root)):
        by_log.setdefault(finding.log, finding)
    return min(by_log.values(), key=lambda f: (_misses(f, root), CATALOGUE.order[f.signature.name]))


def _misses(finding: Finding, root: int | None) -> bool:
    """Whether it is of another rank than the one that torchrun saw fail first."""
    return root is not None and finding.rank not in (root, None)


def _ranks(findings: Sequence[Finding], *roles: Role) -> set[int]:
    return {f.rank for f in findings if f.role in roles and f.rank is not None}


def _suspect(
    findings: Sequence[Finding], said: Sequence[Progress], ranks: Collection[int]
) -> tuple[int | None, str]:
    """The rank that others waited for in a collective or a rendezvous, and why it is that one.

    It is one that has said nothing of the kind, or the only one that didn't wait: a rank that
    comes too late finds the others gone.
    """
    suspect, why = behind(said, ranks)
    waiters = _ranks(findings, Role.WAITER)
    if why or not waiters:
        return suspect, why
    silent = sorted(set(ranks) - _ranks(findings, Role.WAITER, Role.VICTIM))
    others = set(ranks) - waiters
    if not silent and len(others) != 1:
        return None, ""
    return min(silent or others), f"rank {min(waiters)} waited for it in vain"


def _diagnosis(found: Finding, rank: int | None, victims: set[int], why: str = "") -> Diagnosis:
    signature = found.signature
    return Diagnosis(
        outcome=signature.outcome,
        signature=signature.name,
        cause=why or signature.cause,
        action=signature.action,
        is_root=found.role is not Role.VICTIM,
        is_precise=found.role <= Role.CLUE,
        rank=rank,
        host=found.host if rank == found.rank else "",
        victims=tuple(sorted(victims - {rank})),
        quote=found.quote,
        log=found.log,
        line=found.line,
    )
