"""The rules of NCCL's versions: what a variable means, what may be tried. Pure, no I/O."""

from autotune.space.nccl.advice import (
    Explanation,
    Surroundings,
    harmful,
    placebo,
    unread,
)
from autotune.space.nccl.algorithms import Algorithm, Protocol, Verdict, available, supported
from autotune.space.nccl.candidates import (
    Choice,
    Job,
    algorithm_choices,
    algorithm_variables,
    planned,
    protocol_choices,
    protocol_variables,
)
from autotune.space.nccl.channels import (
    ChannelBounds,
    channel_limit,
    channel_variables,
    channels_in,
)
from autotune.space.nccl.collectives import (
    Collective,
    collectives_of,
    heavy_collectives,
    heavy_groups,
)
from autotune.space.nccl.effects import usable
from autotune.space.nccl.fabric import Fabric, Network
from autotune.space.nccl.grammar import nccl_algo, nccl_proto
from autotune.space.nccl.names import reads
from autotune.space.nccl.parser import Enabled, Parsed, parse
from autotune.space.nccl.protocols import safe
from autotune.space.nccl.variables import VARIABLES, Kind, Read, Variable, problem
from autotune.space.nccl.version import NcclVersion

__all__ = [
    "VARIABLES",
    "Algorithm",
    "ChannelBounds",
    "Choice",
    "Collective",
    "Enabled",
    "Explanation",
    "Fabric",
    "Job",
    "Kind",
    "NcclVersion",
    "Network",
    "Parsed",
    "Protocol",
    "Read",
    "Surroundings",
    "Variable",
    "Verdict",
    "algorithm_choices",
    "algorithm_variables",
    "available",
    "channel_limit",
    "channel_variables",
    "channels_in",
    "collectives_of",
    "harmful",
    "heavy_collectives",
    "heavy_groups",
    "nccl_algo",
    "nccl_proto",
    "parse",
    "placebo",
    "planned",
    "problem",
    "protocol_choices",
    "protocol_variables",
    "reads",
    "safe",
    "supported",
    "unread",
    "usable",
]
