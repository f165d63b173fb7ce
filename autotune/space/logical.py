"""Logical knobs: what they become depends on the library's version and on other knobs."""

from collections.abc import Callable, Mapping

from autotune.model import DEFAULT, KnobValue
from autotune.space import nccl_rules
from autotune.space.facts import Facts
from autotune.space.nccl import algorithm_variables, channel_variables, protocol_variables

Logical = Callable[[KnobValue, Mapping[str, KnobValue], Facts], dict[str, str]]


def nccl_channels(
    value: KnobValue, candidate: Mapping[str, KnobValue], facts: Facts
) -> dict[str, str]:
    """Exactly this many channels: NCCL_NCHANNELS doesn't exist, a minimum and a maximum do."""
    del candidate
    return channel_variables(nccl_rules.version(facts), int(value))


def nccl_algorithm(
    value: KnobValue, candidate: Mapping[str, KnobValue], facts: Facts
) -> dict[str, str]:
    """One algorithm for the collectives that carry the training and have it."""
    return algorithm_variables(nccl_rules.job(candidate, facts), str(value))


def nccl_protocol(
    value: KnobValue, candidate: Mapping[str, KnobValue], facts: Facts
) -> dict[str, str]:
    """One protocol for the collectives that carry the training."""
    algorithm = str(candidate.get("nccl_algorithm", DEFAULT))
    return protocol_variables(nccl_rules.job(candidate, facts), str(value), algorithm)


LOGICAL: dict[str, Logical] = {
    rule.__name__: rule for rule in (nccl_channels, nccl_algorithm, nccl_protocol)
}
