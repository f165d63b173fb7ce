"""Tables of the normal and Student's t distribution, and what they cost a command."""

import subprocess
import sys

import pytest

from autotune.scoring.distributions import normal_cdf, normal_quantile, t_quantile


@pytest.mark.parametrize(("z", "probability"), [(0, 0.5), (1.96, 0.9750021), (-6, 9.865876e-10)])
def test_normal(z: float, probability: float) -> None:
    assert normal_cdf(z) == pytest.approx(probability, rel=1e-6)
    assert normal_quantile(probability) == pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (4, 2.77645), (1e9, 1.95996)])
def test_student(freedom: float, quantile: float) -> None:
    """The 97.5 % column of any table."""
    assert t_quantile(freedom, 0.975) == pytest.approx(quantile, rel=1e-5)


def test_the_command_line_imports_nothing_slow_that_it_may_not_need() -> None:
    """Half a second for scipy, one for optuna, three for torch: `autotune show` waits for none."""
    script = "import sys, autotune.cli.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    slow = {"torch", "optuna", "ray", "boto3", "scipy", "matplotlib", "pandas"}
    assert slow.isdisjoint(done.stdout.split())
