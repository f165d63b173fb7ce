"""What a node is asked to run of a trial."""

from dataclasses import dataclass
from pathlib import Path

from autotune.executors.rank_environment import LOOPBACK, RankPlace
from autotune.model import TrialSpec


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a node is to start."""

    spec: TrialSpec
    ranks_per_node: int
    directory: Path
    """On the node, made by it: for the specification and the logs."""
    node: int = 0
    """From 0; node 0 has rank 0."""
    nodes: int = 1
    address: str = LOOPBACK
    port: int = 0
    """Where the ranks meet; node 0 needs none."""
    fresh: bool = True
    """The processes run no other trial, neither before nor after."""

    @property
    def ranks(self) -> range:
        """Those of this node."""
        return range(self.node * self.ranks_per_node, (self.node + 1) * self.ranks_per_node)

    @property
    def nobody(self) -> RankPlace:
        """The place of no rank in particular, for what is the same for all of them."""
        ranks = self.nodes * self.ranks_per_node
        return RankPlace(rank=0, ranks=ranks, nodes=self.nodes, port=0, channel_fd=0, store_fd=None)
