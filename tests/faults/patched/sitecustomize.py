"""Found first by PYTHONPATH: has simulated trials take real time, and limits be shorter.

AUTOTUNE_TEST_TRIAL_S is seconds for each trial; AUTOTUNE_TEST_CONSTANTS is JSON of
`module:NAME` to the value that the test has in place of the product's.
"""

import json
import os
import time
from importlib import import_module
from typing import Any

from autotune.executors.simulated import SimulatedExecutor

simulate = SimulatedExecutor.run


def slowly(self: SimulatedExecutor, *arguments: Any) -> Any:
    time.sleep(float(os.environ.get("AUTOTUNE_TEST_TRIAL_S", "0")))
    return simulate(self, *arguments)


SimulatedExecutor.run = slowly  # type: ignore[method-assign]
for place, value in json.loads(os.environ.get("AUTOTUNE_TEST_CONSTANTS", "{}")).items():
    module, _, name = place.partition(":")
    setattr(import_module(module), name, value)
