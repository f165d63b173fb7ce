"""Refuses a configuration that wasn't measured for this machine; says what else is different."""

import logging
import os
from collections.abc import Sequence

import torch

from autotune.errors import UserError
from autotune.executors.host import describe_machine
from autotune.executors.host_links import find_links
from autotune.exporters.fingerprint import changes, misfit
from autotune.model import BestConfiguration, Conclusion, Machine

log = logging.getLogger("autotune")


def refuse(best: BestConfiguration, name: str, *, force: bool) -> None:
    """Raise UserError if `best`, from the file `name`, isn't for this machine or isn't confirmed.

    With `force` that is logged, as are versions and a topology that aren't those of then.
    """
    machines = _machines()
    reasons = _unfit(best, machines)
    if reasons and not force:
        raise UserError(
            f"{name}: {'; '.join(reasons)}",
            hint="measure one here with `autotune run`, or take it all the same with force=True "
            "(--force)",
        )
    for reason in reasons:
        warn(f"forced: {name}: {reason}")
    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    for change in changes(best, machines[0], find_links(), versions):
        warn(f"{name}: {change}: `autotune verify` tells whether it still holds")


def warn(text: str) -> None:
    """Log `text` once a node: every rank has the same to say."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        log.warning("%s", text)


def _unfit(best: BestConfiguration, machines: Sequence[Machine]) -> list[str]:
    found = [misfit(best, machine) for machine in machines]
    reasons = [] if "" in found else [found[0]]
    if best.conclusion is Conclusion.UNCONFIRMED:
        reasons.append("it is unconfirmed: never measured against the baseline a second time")
    return reasons


def _machines() -> list[Machine]:
    """The machine with all of its GPUs, and as this process sees it.

    A launcher may show each rank one GPU; a study may have been run on some of them.
    """
    return [describe_machine(environment={}), describe_machine()]
