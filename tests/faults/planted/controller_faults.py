"""For the controller of a fault test: what makes its trials quick, and which of them are whose.

A study's first three trials are those of the baseline and all others belong to the search, however
noisy the machine is, so that a test can plant a fault by a trial's number. A hang is called after
AUTOTUNE_TEST_SLACK seconds in place of 20.
"""

import os
from types import ModuleType

import rank_faults
from planting import when_imported


def plant() -> None:
    rank_faults.plant()
    when_imported("autotune.loop.plan", _plan)
    when_imported("autotune.loop.limits", _limits)
    when_imported("autotune.executors.watch", _watch)
    when_imported("autotune.executors.rank_process", _rank_process)


def _plan(module: ModuleType) -> None:
    module.INDISTINCT = float("inf")
    module.BASELINE_EVERY = 10**6


def _limits(module: ModuleType) -> None:
    module.SLACK_S = _slack_s(module.SLACK_S)


def _watch(module: ModuleType) -> None:
    defaults = module.Limits.__init__.__kwdefaults__
    defaults["slack_s"] = _slack_s(defaults["slack_s"])


def _rank_process(module: ModuleType) -> None:
    module.KILL_LIMIT_S = 2.0


def _slack_s(usual: float) -> float:
    return float(os.environ.get("AUTOTUNE_TEST_SLACK", usual))
