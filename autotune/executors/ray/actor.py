"""The agent of one node as a Ray actor: what `NodeAgent` does, asked for from elsewhere."""

import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from threading import Event

import ray

from autotune.executors.device_memory import DeviceMemory
from autotune.executors.ec2_metadata import instance_type
from autotune.executors.host import describe_machine
from autotune.executors.host_links import find_links
from autotune.executors.launch_facts import NodesEnd
from autotune.executors.local import RANK_COMMAND
from autotune.executors.node_agent import NodeAgent
from autotune.executors.nodes import NodeEvent, StartError
from autotune.executors.order import Order
from autotune.executors.own_folder import OwnFolder
from autotune.executors.rank_starter import RankStarter
from autotune.executors.ray.code import as_here, fault, spec_here
from autotune.executors.ray.interface import interface_of
from autotune.executors.ray.probe import Meeting, NodeProbe, probe_node
from autotune.executors.ray.silence import Silence
from autotune.executors.standing import Standing
from autotune.executors.warden import Warden
from autotune.executors.watch import Limits
from autotune.model import Machine, UserWorkload
from autotune.model.protocol import Answer
from autotune.space.facts import Links

BEATS = "beats"
"""Of calls that come beside the others, with a thread of their own."""
_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What is the same for all agents and all trials of a run."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the driver's environment, set before anything is started."""
    cold: bool = False
    workload: UserWorkload | None = None
    rank_command: tuple[str, ...] = ()
    """Empty: the usual one, by this node's interpreter."""
    term_s: float = Limits.term_s
    memory_before: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By address what was in use of each GPU of nodes that have had an agent before."""
    ask_ec2: bool = False
    """Whether the node may ask EC2's metadata service what it is."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """What a node says of itself."""

    host: str
    address: str
    pid: int
    """Of its agent."""
    machine: Machine
    links: Links
    instance_type: str | None
    """As EC2 has it."""
    memory_used: tuple[int, ...]
    """Bytes on each of its GPUs."""
    versions: Mapping[str, str]
    """What has to be the same on the driver."""


def own_versions() -> dict[str, str]:
    """Of what the driver and its agents exchange objects with."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = str(import_module("autotune").__version__)  # the package itself is above this layer
    return {"autotune": own, "Python": python, "Ray": ray.__version__}


class AgentActor:
    """One on each node. Its calls come one after the other, beats beside them."""

    def __init__(self, options: AgentOptions) -> None:
        self._silence = Silence()
        self._options = options
        self._address = ray.util.get_node_ip_address()
        os.environ.update(options.variables)
        # Gloo would take the address that the host's name stands for, which may be the loopback's.
        if name := interface_of(self._address):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        # Ray's own, by what it was told of the node; ranks get a share of what there is.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._machine = describe_machine()
        self._workload = options.workload and as_here(options.workload)
        self._own = OwnFolder("agent-")
        self._folder = self._own.path
        # A person may have told Ray of fewer CPUs than there are.
        reserved = int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1))
        self._cores = min(self._machine.cores, reserved)
        self._server: socket.socket | None = None
        """At which a probe is about to meet."""
        self._agent = NodeAgent(
            rank_command=options.rank_command or RANK_COMMAND,
            starter=RankStarter(
                cold=options.cold,
                workload=self._workload,
                # Ray ends an actor's children with it: this one is to outlive it.
                warden=Warden(apart=True),
            ),
            cores=lambda: self._cores,
            term_s=options.term_s,
            memory_before=options.memory_before.get(self._address),
        )

    def facts(self) -> NodeFacts:
        """What this node is. Its warm parent starts meanwhile."""
        self._agent.prepare()
        return NodeFacts(
            host=socket.gethostname(),
            address=self._address,
            pid=os.getpid(),
            machine=self._machine,
            links=find_links(),
            instance_type=instance_type() if self._options.ask_ec2 else None,
            memory_used=DeviceMemory().before if self._machine.gpus else (),
            versions=own_versions(),
        )

    def open_probe(self) -> tuple[str, int]:
        """Address and port at which the processes of a probe meet."""
        self._server = socket.create_server((self._address, 0), backlog=128)
        return self._address, self._server.getsockname()[1]

    def probe(self, meeting: Meeting) -> NodeProbe:
        """What each device here takes for the same work, and data for the way here."""
        server, self._server = self._server, None
        with server or nullcontext():
            return probe_node(meeting, self._machine, server, cores=self._cores)

    @ray.method(concurrency_group=BEATS)
    def beat(self) -> None:
        """The driver lives, and so does this. Answered at once, whatever else goes on."""
        self._silence.broken()

    def listen(self) -> tuple[str, int]:
        """Address and port at which the next trial's ranks meet."""
        return self._address, self._agent.listen(self._address)

    def get_ready(self, order: Order) -> StartError | None:
        """Have everything be there but the trial's own; returns why it can't be started."""
        if self._workload is not None and (wrong := fault(self._workload)):
            return StartError(f"{self._address}: {wrong}")
        self._agent.get_ready(self._here(order), Event())
        return None

    def start(self, order: Order) -> StartError | None:
        """Start this node's ranks; returns why that can't be."""
        try:
            self._agent.start(self._here(order), Event())
        except StartError as error:
            return StartError(f"{self._address}: {error}", error.outcome)
        self._silence.has_trial = True
        return None

    def _here(self, order: Order) -> Order:
        own, directory = self._workload, self._folder / order.directory.name
        spec = order.spec if own is None else spec_here(order.spec, own)
        return replace(order, spec=spec, directory=directory)

    def exchange(
        self, answers: Sequence[tuple[int, Answer]], timeout_s: float
    ) -> Sequence[NodeEvent]:
        """Hand out answers; what happens within `timeout_s`, as soon as anything has."""
        faults = [self._agent.send(rank, answer) for rank, answer in answers]
        events: list[NodeEvent] = [fault for fault in faults if fault is not None]
        deadline = time.monotonic() + timeout_s
        while not events:
            left_s = deadline - time.monotonic()
            events += self._agent.wait(max(0.0, min(_POLL_S, left_s)))
            if left_s <= 0:
                break
        return events

    def inspect(self) -> tuple[Standing, ...]:
        return self._agent.inspect()

    def end(self) -> NodesEnd:
        return self._agent.end(may_stay=False)

    def finish(self, *, well: bool) -> str:
        """Remove what is left; its logs have gone to the driver."""
        left = self._agent.finish(well=well)
        self._silence.has_trial = False
        for folder in filter(Path.is_dir, self._folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        return left

    def abandon(self) -> None:
        self._agent.abandon()
        self._silence.has_trial = False

    def close(self) -> None:
        """End everything; the actor may be killed then."""
        self._agent.close()
        self._own.remove()
