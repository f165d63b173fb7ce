"""Whether two layouts train the same model: same data and seed, so nearly the same losses.

A script of a user's is measured from outside. Its losses, if they are seen at all, are compared
with a wide tolerance: its dropout and its order of samples are its own. That still tells a gradient
that is scaled otherwise, which is what goes wrong when the micro-batch changes.
"""

import math
from collections.abc import Sequence

from autotune.model import DeviceKind, Timings

STEPS = 3
"""Compared from the first step on; later, rounding differences grow by themselves."""
_TOLERANCE = {DeviceKind.CPU: 1e-3, DeviceKind.CUDA: 2e-2}
"""Relative. On CPU all is float32 and only the order of sums differs (eps 1.2e-7, amplified by a
few optimizer steps); on CUDA bfloat16 (eps 7.8e-3) enters at different places by strategy."""
SCRIPT_TOLERANCE = 0.2
"""Relative. A loss that isn't divided by the accumulation steps is off by a factor of 2 or more."""


def disparity(candidate: Timings, baseline: Timings, device: DeviceKind) -> str:
    """How `candidate` trains differently, as a clause; empty if it doesn't, or nobody knows."""
    if differs := _samples(candidate, baseline):
        return differs
    tolerance = SCRIPT_TOLERANCE if _is_scripts(baseline) else _TOLERANCE[device]
    for name, theirs, ours in (
        ("loss", baseline.losses, candidate.losses),
        ("gradient norm", baseline.gradient_norms, candidate.gradient_norms),
    ):
        pairs = zip(theirs[:STEPS], ours[:STEPS], strict=False)
        for step, (expected, actual) in enumerate(pairs):
            if not math.isclose(expected, actual, rel_tol=tolerance):
                return f"{name} of step {step} is {actual:.6g}, and {expected:.6g} in the baseline"
    return ""


def unchecked(candidate: Timings, baselines: Sequence[Timings], device: DeviceKind) -> str:
    """Why nobody knows whether `candidate` trains the same, as a clause; empty if that is known."""
    if not _is_scripts(candidate):
        return ""
    if not candidate.losses or not all(one.losses for one in baselines):
        return "the script's loss isn't seen"
    if any(disparity(one, baselines[0], device) for one in baselines[1:]):
        return "the script's losses differ from launch to launch by themselves"
    return ""


def _is_scripts(measured: Timings) -> bool:
    return "loss_source" in measured.effective


def _samples(candidate: Timings, baseline: Timings) -> str:
    """A step of other samples isn't the same step, whatever its loss."""
    ours, theirs = (one.effective.get("samples_read") for one in (candidate, baseline))
    if not ours or not theirs or ours == theirs:
        return ""
    return f"it reads {ours} samples for a step, and {theirs} in the baseline"
