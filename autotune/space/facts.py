"""What is known of the machine and the job when a space is built: what conditions may ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from autotune.errors import FieldError
from autotune.model import PRESETS, DeviceKind, KnobValue, Machine, Target, UserWorkload, decode
from autotune.space.gpus import compute_capability
from autotune.space.instances import InstanceType, Interconnect
from autotune.space.nccl import NcclVersion, Network
from autotune.space.plugin import NO_PLUGIN, NVLS_WORKS_FROM, why_simple


@dataclass(frozen=True, kw_only=True)
class Links:
    """What is between the GPUs of this machine and between it and others, as it was found."""

    nvlink: bool = False
    nvswitch: bool = False
    network: Network = Network.SOCKET
    nics: int = 1
    plugin: str = ""
    """Version of aws-ofi-nccl; empty if there is none or it can't be told."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that decides which knobs and values exist, beside the candidate's own values."""

    device: DeviceKind
    nodes: int
    ranks_per_node: int
    global_batch: int
    """Samples per optimizer step."""
    torch: str = ""
    """Version, empty when not known."""
    nccl: str = ""
    """Version, empty on CPU."""
    plugin: str = ""
    """Version of aws-ofi-nccl; empty when not known, `none` without it."""
    compute_capability: int = 0
    """Of the GPUs, such as 80 or 90; 0 when not known."""
    nvlink: bool = False
    nvswitch: bool = False
    between_nodes: Network = Network.SOCKET
    """What nodes of this kind reach each other by, be there one or more."""
    nics: int = 1
    """Network cards of a node that collectives can use."""
    nic_near_gpu: bool | None = None
    """Each GPU reaches its network card through PCIe switches only; None when not known."""
    delivers_in_order: bool | None = None
    """EFA brings bytes in order; None when not known."""
    plugin_forces_simple: bool = False
    """The EFA plugin sets NCCL_PROTO=simple: bytes may arrive out of order."""
    cores: int = 0
    """Of a node, 0 when not known."""
    numa_nodes: int = 1
    blocks: int = 0
    """Transformer blocks of the workload, 0 when not known."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """Variables that the EFA plugin sets by itself: what leaving a knob alone means."""
    told: tuple[str, ...] | None = None
    """Settings that the user's script is told; None where trials apply all of them."""
    named: tuple[str, ...] = ()
    """Those among them that the script's arguments name."""
    own: Mapping[str, KnobValue] = field(default_factory=dict)
    """Settings that the user's script decides on by itself, as they were read back."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the user's environment holds in every trial and that knobs would set."""

    @property
    def ranks(self) -> int:
        """Data-parallel ranks."""
        return self.nodes * self.ranks_per_node

    @property
    def why_simple(self) -> str:
        """Why the EFA plugin sets NCCL_PROTO=simple, as a clause; empty if it doesn't."""
        if not self.plugin_forces_simple:
            return ""
        why = why_simple(self.delivers_in_order, self.plugin)
        return why or "the EFA plugin is said to force simple here"

    @property
    def network(self) -> Network:
        """What is between the nodes of this job; none if there is one."""
        return self.between_nodes if self.nodes > 1 else Network.NONE

    def in_force(self, variable: str) -> str | None:
        """The value of `variable` when no candidate sets it, as far as is known."""
        return self.environment.get(variable, self.presets.get(variable))

    @classmethod
    def of(
        cls,
        machine: Machine,
        target: Target,
        *,
        workload: UserWorkload | None = None,
        instance: InstanceType | None = None,
        links: Links | None = None,
        assumed: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Facts":
        """The facts of `target` on `machine`; `workload` is the user's own, if it isn't built in.

        What the catalogue's `instance` says about connections goes before what was found.
        `assumed` replaces facts by name, given as text. Raises FieldError.
        """
        found = links or Links()
        facts = cls(
            device=machine.device,
            nodes=target.nodes,
            ranks_per_node=target.ranks_per_node,
            global_batch=target.global_batch,
            torch=machine.versions.get("torch", ""),
            nccl=machine.versions.get("nccl", ""),
            plugin=found.plugin,
            compute_capability=_capability(machine, instance),
            nvlink=found.nvlink,
            nvswitch=found.nvswitch,
            between_nodes=found.network,
            nics=found.nics,
            cores=machine.cores,
            numa_nodes=machine.numa_nodes,
            blocks=_blocks(target, workload),
            **_of_script(workload),
            environment=environment or {},
        )
        if instance is not None:
            facts = _connected(facts, instance)
        facts = _assume(facts, assumed or {})
        return _with_plugin(facts, instance, assumed or {})


FACTS = (
    *(
        name
        for name in get_type_hints(Facts)
        if name not in ("presets", "environment", "told", "named", "own")
    ),
    "ranks",
    "network",
)
"""What a condition may ask for."""

ASSUMABLE = (
    "nccl", "torch", "plugin", "nodes", "network", "compute_capability", "nvlink", "nvswitch",
    "nics", "nic_near_gpu", "delivers_in_order", "plugin_forces_simple", "cores", "numa_nodes",
    "blocks",
)  # fmt: skip
"""What a person may assume of a machine that isn't here."""


def _blocks(target: Target, workload: UserWorkload | None) -> int:
    if workload is not None:
        return workload.blocks
    return PRESETS[target.workload].layers if target.workload in PRESETS else 0


def _of_script(workload: UserWorkload | None) -> dict[str, Any]:
    script = workload.script if workload is not None else None
    return {} if script is None else {"told": script.told, "named": script.named, "own": script.own}


def _capability(machine: Machine, instance: InstanceType | None) -> int:
    if instance is not None and instance.compute_capability is not None:
        return instance.compute_capability
    known = [compute_capability(gpu.name) for gpu in machine.gpus]
    return min(known, default=0)


def _connected(facts: Facts, instance: InstanceType) -> Facts:
    network = Network.IB if instance.infiniband else Network.SOCKET
    return replace(
        facts,
        nvlink=instance.interconnect in (Interconnect.NVLINK, Interconnect.NVSWITCH),
        nvswitch=instance.interconnect is Interconnect.NVSWITCH,
        between_nodes=Network.EFA if instance.efa else network,
        nics=instance.nics,
        nic_near_gpu=instance.nic_near_gpu,
        delivers_in_order=instance.delivers_in_order,
    )


def _assume(facts: Facts, assumed: Mapping[str, str]) -> Facts:
    changes: dict[str, Any] = {}
    kinds = get_type_hints(Facts)
    for name, text in assumed.items():
        if name not in ASSUMABLE:
            raise FieldError("--assume", name, "is no fact", alternatives=ASSUMABLE)
        own = "between_nodes" if name == "network" else name
        changes[own] = decode(kinds[own], _plain(text, kinds[own]), f"--assume {name}")
    if changes.get("nccl"):
        NcclVersion.parse(changes["nccl"])
    return replace(facts, **changes)


def _plain(text: str, kind: object) -> object:
    """`text` as YAML would have it, for a fact of `kind`."""
    if kind in (bool, bool | None) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if kind is int and text.isdecimal() else text


def _with_plugin(facts: Facts, instance: InstanceType | None, assumed: Mapping[str, str]) -> Facts:
    """What the EFA plugin does by itself; on instances with EFA it is taken to be there.

    Source: aws-ofi-nccl 1.21.1, src/platform-aws.cpp.
    """
    if facts.between_nodes is not Network.EFA:
        return facts
    if facts.plugin == NO_PLUGIN:
        # NCCL falls back to TCP without a word.
        return replace(facts, between_nodes=Network.SOCKET)
    presets = dict(instance.presets) if instance else {}
    if facts.nccl and NcclVersion.parse(facts.nccl) < NVLS_WORKS_FROM:
        presets["NCCL_NVLS_ENABLE"] = "0"
    forces = bool(why_simple(facts.delivers_in_order, facts.plugin))
    if "plugin_forces_simple" in assumed:
        forces = facts.plugin_forces_simple
    return replace(facts, presets=presets, plugin_forces_simple=forces)
