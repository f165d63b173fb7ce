"""The instance catalogue, and whether a machine is what it claims to be."""

from pathlib import Path

import pytest

from autotune.errors import FieldError, UserError
from autotune.model import GIB, MIB, Gpu, Machine, Target
from autotune.space.facts import Facts
from autotune.space.instances import (
    Interconnect,
    find_instance,
    load_instances,
    machine_of,
    mismatch,
)
from autotune.yaml_reader import read_source

ENTRY = """
instances:
  - name: mine
    gpu: X1
    gpus: 2
    gpu_memory_mib: 1024
    interconnect: pcie
    vcpus: 4
    memory_gib: 8
    network_gbps: 10
    nics: 1
    efa: false
"""


def machine(count: int, name: str, mib: int) -> Machine:
    return Machine(
        instance="local",
        gpus=tuple(Gpu(name=name, memory_bytes=mib * MIB) for _ in range(count)),
        cpu="Intel",
        cores=96,
        memory_bytes=1000 * GIB,
        numa_nodes=2,
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "more.yaml"
    path.write_text(text)
    return path


def test_the_shipped_catalogue() -> None:
    instances = load_instances()
    assert len(instances) == 27
    p4d = instances["p4d.24xlarge"]
    assert (p4d.gpus, p4d.gpu, p4d.gpu_memory_mib, p4d.nics) == (8, "A100", 40960, 4)
    assert p4d.interconnect is Interconnect.NVSWITCH
    assert p4d.presets["NCCL_BUFFSIZE"] == "8388608"
    assert instances["p5en.48xlarge"].presets["NCCL_NETDEVS_POLICY"] == "max:1"
    assert instances["p5.4xlarge"].presets == {}
    assert instances["p5e.48xlarge"].price is None


def test_third_party_values_are_marked() -> None:
    for instance in load_instances().values():
        assert (instance.price is None) == ("price" not in instance.unverified), instance.name
        guessed = instance.interconnect_gb_per_s is not None
        assert guessed == ("interconnect_gb_per_s" in instance.unverified), instance.name
        assert all(getattr(instance, name) is not None for name in instance.unverified)


@pytest.mark.parametrize(
    ("instance", "found"),
    [
        ("p4d.24xlarge", machine(8, "NVIDIA A100-SXM4-40GB", 40960)),
        ("p4de.24xlarge", machine(8, "NVIDIA A100-SXM4-80GB", 81920)),
        ("p5.48xlarge", machine(8, "NVIDIA H100 80GB HBM3", 81559)),
        ("p5en.48xlarge", machine(8, "NVIDIA H200", 143771)),
        ("p3.16xlarge", machine(8, "Tesla V100-SXM2-16GB", 16160)),
        ("g4dn.12xlarge", machine(4, "Tesla T4", 15360)),
        ("g5.12xlarge", machine(4, "NVIDIA A10G", 23028)),
        ("g6.12xlarge", machine(4, "NVIDIA L4", 23034)),
        ("g7e.48xlarge", machine(8, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887)),
    ],
)
def test_machines_that_are_what_they_claim(instance: str, found: Machine) -> None:
    assert mismatch(found, load_instances()[instance]) is None


@pytest.mark.parametrize(
    ("instance", "found", "says"),
    [
        ("p4d.24xlarge", machine(0, "", 0), "it has 0 visible GPUs, not 8"),
        ("p4d.24xlarge", machine(4, "NVIDIA A100-SXM4-40GB", 40960), "4 visible GPUs, not 8"),
        ("p4d.24xlarge", machine(8, "NVIDIA H100 80GB HBM3", 81559), "GPU is NVIDIA H100 80GB"),
        ("g6.12xlarge", machine(4, "NVIDIA L40S", 22888), "its GPU is NVIDIA L40S, not L4"),
        (
            "p4d.24xlarge",
            machine(8, "NVIDIA A100-SXM4-80GB", 81920),
            "its NVIDIA A100-SXM4-80GB has 80.0 GiB of memory, not 40.0 GiB",
        ),
        ("g4dn.12xlarge", machine(4, "Tesla T4", 14000), "13.7 GiB of memory, not 16.0 GiB"),
    ],
)
def test_machines_that_are_something_else(instance: str, found: Machine, says: str) -> None:
    text = mismatch(found, load_instances()[instance])
    assert text is not None
    assert says in text
    assert found.describe() in text
    assert load_instances()[instance].describe() in text


def test_an_unknown_name_has_alternatives() -> None:
    with pytest.raises(FieldError, match=r"'p4d.24xlage' is not in the catalogue; did you mean"):
        find_instance("p4d.24xlage", load_instances())


def test_a_user_adds_and_replaces_instances(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY)
    assert find_instance("mine", load_instances([read_source(path)])).gpus == 2
    path = written(tmp_path, ENTRY.replace("mine", "p4d.24xlarge"))
    instances = load_instances([read_source(path)])
    assert instances["p4d.24xlarge"].gpu == "X1"
    assert len(instances) == 27


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("instances: {}", "yaml:1: instances: {} has to be a list of instances"),
        (ENTRY + "instance: 1\n", "'instance' is no key here"),
        (ENTRY.replace("gpus: 2", "gpus: 0"), r"instances\[0\].gpus: 0 has to be at least 1"),
        (ENTRY.replace("gpus: 2", "gpus: two"), r"instances\[0\].gpus: 'two' has to be a whole"),
        (ENTRY.replace("gpus: 2", "gpus: 1"), "interconnect: 'pcie' contradicts 1 GPUs"),
        (ENTRY.replace("pcie", "pci"), "did you mean 'pcie'"),
        (ENTRY.replace("vcpus", "vcpu"), r"instances\[0\].vcpu: 'vcpu' is unknown; did you mean"),
        (ENTRY.replace("    nics: 1\n", ""), r"instances\[0\].nics: is required but missing"),
        (ENTRY + "    unverified: [prize]\n", "unverified: 'prize' is no field"),
        (
            ENTRY + ENTRY.replace("\ninstances:\n", ""),
            r"instances\[1\].name: 'mine' is there twice",
        ),
    ],
)
def test_errors_name_file_field_and_rule(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=says) as caught:
        load_instances([read_source(path)])
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "!!python/object:os.system {}", "a: &b 1\nc: *b"])
def test_what_is_no_yaml(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"more\.yaml:\d: "):
        load_instances([read_source(written(tmp_path, text))])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_instances([read_source(tmp_path / "none.yaml")])


def test_every_mistake_is_listed_with_its_line(tmp_path: Path) -> None:
    text = ENTRY.replace("gpus: 2", "gpus: two").replace("pcie", "pci") + "other: 1\n"
    with pytest.raises(UserError) as caught:
        load_instances([read_source(written(tmp_path, text))])
    message = str(caught.value)
    assert "3 mistakes" in message
    for part in (
        "yaml:5: instances[0].gpus",
        "yaml:7: instances[0].interconnect",
        "yaml:13: other",
    ):
        assert part in message


def test_every_shipped_instance_can_be_described() -> None:
    for name, instance in load_instances().items():
        described = machine_of(instance, {})
        assert mismatch(described, instance) is None
        target = Target(
            instance=name, nodes=2, ranks_per_node=instance.gpus, workload="tiny", global_batch=32
        )
        facts = Facts.of(described, target, instance=instance)
        assert facts.compute_capability >= 70, name
        assert facts.network == ("efa" if instance.efa else "socket")


def test_an_on_premises_box(tmp_path: Path) -> None:
    text = ENTRY + "    infiniband: true\n    compute_capability: 97\n"
    box = load_instances([read_source(written(tmp_path, text))])["mine"]
    target = Target(instance="mine", nodes=2, ranks_per_node=2, workload="own", global_batch=32)
    facts = Facts.of(machine_of(box, {}), target, instance=box)
    assert (facts.network, facts.compute_capability, facts.blocks) == ("ib", 97, 0)
    assert facts.presets == {}
    assert not facts.plugin_forces_simple
