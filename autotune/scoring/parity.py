"""Whether two layouts train the same model: same data and seed, so nearly the same losses."""

import math

from autotune.model import DeviceKind, Timings

STEPS = 3
"""Compared from the first step on; later, rounding differences grow by themselves."""
_TOLERANCE = {DeviceKind.CPU: 1e-3, DeviceKind.CUDA: 2e-2}
"""Relative. On CPU all is float32 and only the order of sums differs (eps 1.2e-7, amplified by a
few optimizer steps); on CUDA bfloat16 (eps 7.8e-3) enters at different places by strategy."""


def disparity(candidate: Timings, baseline: Timings, device: DeviceKind) -> str:
    """How `candidate` trains differently, as a clause; empty if it doesn't."""
    for name, theirs, ours in (
        ("loss", baseline.losses, candidate.losses),
        ("gradient norm", baseline.gradient_norms, candidate.gradient_norms),
    ):
        pairs = zip(theirs[:STEPS], ours[:STEPS], strict=False)
        for step, (expected, actual) in enumerate(pairs):
            if not math.isclose(expected, actual, rel_tol=_TOLERANCE[device]):
                return f"{name} of step {step} is {actual:.6g}, and {expected:.6g} in the baseline"
    return ""
