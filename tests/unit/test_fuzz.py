"""Whatever the parsers are given, they accept or refuse it; see tests/fuzz/."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutate import damaged
from tests.fuzz.targets import TARGETS

FOUND = sorted((Path(__file__).parents[1] / "fixtures" / "fuzz").glob("*.bin"))
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_is_refused_now(path: Path) -> None:
    target = TARGETS[path.stem.partition("-")[0]]
    target(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_starts_from_inputs_that_it_takes(name: str) -> None:
    target = TARGETS[name]
    assert any(target(seed) for seed in target.seeds)


def fuzz(name: str, examples: int) -> None:
    target = TARGETS[name]

    @settings(max_examples=examples, deadline=None, suppress_health_check=QUIET, derandomize=True)
    @given(damaged(target.seeds) | st.binary(max_size=200))
    def run(data: bytes) -> None:
        target(data)

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_input_is_accepted_or_refused(name: str) -> None:
    fuzz(name, 40)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_many_damaged_inputs_are_accepted_or_refused(name: str) -> None:
    fuzz(name, 5000)
