"""Why knobs and values are left out: the true reason for each machine, version and plugin."""

import re
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.machines import Place
from autotune.request import Request, Spaces, build_space, build_target
from autotune.space.instances import load_instances, machine_of
from autotune.space.space import Space
from autotune.space.view import KnobView, view


def space_of(instance: str, assumed: str, **asked: Any) -> Space:
    entry = load_instances()[instance]
    place = Place(machine=machine_of(entry, {}), instance=entry, is_here=False)
    facts = dict(pair.split("=") for pair in assumed.split(","))
    request = Request(
        instance=instance, space=Spaces.of("full"), assumed=facts, **{"environment": {}, **asked}
    )  # fmt: skip
    return build_space(request, place, build_target(request, place.machine))


def seen(
    instance: str, knob: str, assumed: str, strategy: str = "ddp", **environment: str
) -> KnobView:
    space = space_of(instance, assumed, pinned={"strategy": strategy}, environment=environment)
    return view(space, space.knob(knob))


P4D, P3, P5, G5 = "p4d.24xlarge", "p3.8xlarge", "p5.48xlarge", "g5.48xlarge"


@pytest.mark.parametrize(
    ("instance", "assumed", "value", "says"),
    [
        (P5, "nccl=2.18.3", "nvls", "plugin switches NVLS off before NCCL 2.18.5, this is 2.18.3"),
        (P5, "nccl=2.18.5,nodes=2", "nvls", "spans nodes only with CollNet, which EFA can't do"),
        (P5, "nccl=2.21.5", "nvls", "ll128 unchecked, which may corrupt data"),
        (P5, "nccl=2.31.2", "nvls_tree", "for several nodes, and there is one"),
        (P4D, "nccl=2.27.5", "nvls", "the GPUs' compute capability is 8.0"),
        (P4D, "nccl=2.21.5", "tree", "such as broadcast, on a ring with any protocol"),
        (P4D, "nccl=2.27.5", "collnet_chain", "for several nodes, and there is one"),
        (P3, "nccl=2.27.5,nodes=2", "collnet_chain", "a plugin that reduces in the network"),
        (P4D, "nccl=2.27.5,nodes=2", "collnet_chain", "EFA doesn't reduce in the network"),
        (P4D, "nccl=2.18.5", "pat", "NCCL has no pat for all-reduce"),
        (P4D, "nccl=2.27.5,compute_capability=0", "nvls", "--assume compute_capability=90"),
    ],
)  # fmt: skip
def test_algorithms(instance: str, assumed: str, value: str, says: str) -> None:
    assert says in seen(instance, "nccl_algorithm", assumed).left_out[value]


@pytest.mark.parametrize(
    ("instance", "assumed", "value", "says"),
    [
        (P5, "nccl=2.27.5", "ll", "isn't known (autotune knobs takes --assume plugin=1.7.3)"),
        (P5, "nccl=2.27.5,plugin=1.7.2", "ll", "forces simple before 1.7.3, and this is 1.7.2"),
        (P4D, "nccl=2.27.5", "ll", "EFA may bring bytes out of order here"),
        (P4D, "nccl=2.27.5,plugin=1.21", "ll128", "EFA may bring bytes out of order here"),
        (G5, "nccl=2.27.5,plugin=1.21", "ll", "EFA isn't known to bring bytes in order here"),
        (P5, "nccl=2.27.5,plugin=1.21,plugin_forces_simple=true", "ll", "is said to force simple"),
        (P5, "nccl=2.27.5,plugin=1.21,nodes=2", "ll128", "--assume nic_near_gpu=true"),
        (P5, "nccl=2.27.5,plugin=1.21,nodes=2,nic_near_gpu=false", "ll128", "which they do not"),
        (P3, "nccl=2.27.5,nodes=2", "ll128", "isn't known to be safe over TCP"),
        (G5, "nccl=2.27.5,plugin=none", "ll128", "over NVLink only, and the GPUs have none"),
    ],
)  # fmt: skip
def test_protocols(instance: str, assumed: str, value: str, says: str) -> None:
    assert says in seen(instance, "nccl_protocol", assumed).left_out[value]


def test_what_is_known_of_a_p5_opens_the_protocols() -> None:
    assumed = "nccl=2.27.5,plugin=1.21,nodes=2,nic_near_gpu=true"
    assert seen(P5, "nccl_protocol", assumed).values == ("default", "ll", "ll128", "simple")


@pytest.mark.parametrize(
    ("instance", "knob", "assumed", "says"),
    [
        (P3, "ofi_protocol", "nccl=2.27.5", "for EFA, and nodes like this reach each other by TCP"),
        (P4D, "ofi_protocol", "nccl=2.27.5,nodes=2", "(autotune knobs takes --assume plugin="),
        (P4D, "ofi_protocol", "nccl=2.27.5,nodes=2,plugin=1.17", "plugin >=1.21, and it is 1.17"),
        (P4D, "nccl_pxn", "nccl=2.27.5", "is for EFA between nodes, and there is one node"),
        (P4D, "nccl_channels", "torch=2.9.1", "needs nccl >=2.5, which isn't known"),
        (P4D, "nccl_nvls_chunk_bytes", "nccl=2.27.5", "the GPUs' compute capability is 8.0"),
        (P4D, "nccl_ll_buffer_bytes", "nccl=2.27.5", "protocol ll, which is left out: EFA may"),
        (P5, "nccl_nvls_chunk_bytes", "nccl=2.18.5", "NCCL reads it from 2.21"),
        (P5, "ofi_min_stripe_bytes", "nccl=2.27.5,plugin=1.21", "and there is one node"),
        (P4D, "ofi_protocol", "nccl=2.27.5,nodes=2,plugin=none", "is for EFA, and nodes like this"),
    ],
)  # fmt: skip
def test_knobs(instance: str, knob: str, assumed: str, says: str) -> None:
    assert says in seen(instance, knob, assumed).reason


def test_without_the_plugin_nodes_with_efa_use_tcp() -> None:
    assert seen(P4D, "nccl_socket_nthreads", "nccl=2.27.5,nodes=2,plugin=none").searched
    assert not seen(P4D, "nccl_socket_nthreads", "nccl=2.27.5,nodes=2,plugin=1.17").values


def test_nvls_is_off_by_the_environment() -> None:
    found = seen(P5, "nccl_algorithm", "nccl=2.27.5,plugin=1.21", NCCL_NVLS_ENABLE="0")
    assert "NCCL_NVLS_ENABLE=0 in the environment switches NVLS off" in found.left_out["nvls"]


@pytest.mark.parametrize(
    ("instance", "means", "left_out", "says"),
    [
        (P3, "float32", "bfloat16", "compute capability 8.0 or later, and theirs is 7.0"),
        ("g4dn.12xlarge", "float32", "bfloat16", "and theirs is 7.5"),
        (P4D, "bfloat16", "float32", "--allow-lossy"),
        (P5, "bfloat16", "bfloat16", "is what the default means here"),
    ],
)
def test_gpus_without_bfloat16_compute_in_float32(
    instance: str, means: str, left_out: str, says: str
) -> None:
    found = seen(instance, "compute_dtype", "nccl=2.27.5")
    assert found.default_means == means
    assert says in found.left_out[left_out]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"pinned": {"nccl_protocol": "ll"}}, "'ll' is left out here: EFA may bring bytes out of"),
        ({"pinned": {"NCCL_SOCKET_NTHREADS": "4"}}, "4 has no effect here: is for TCP, and nodes"),
        ({"only": ("nccl_socket_nthreads",)}, "'nccl_socket_nthreads' has no effect here: is for"),
        (
            {"pinned": {"strategy": "fsdp_full", "bucket_cap_mb": "10"}},
            "needs strategy ddp, and it",
        ),
        ({"pinned": {"nccl_channels": "99"}}, "'99' is outside 1 to 64 channels"),
        (
            {"pinned": {"nccl_ll_buffer_bytes": "262144"}},
            "needs nccl_protocol ll, which is left out",
        ),
        (
            {"pinned": {"compute_dtype": "float32"}},
            "changes numerics: allow that with --allow-lossy",
        ),
        ({"pinned": {"strategy": "ddp"}, "only": ("shard_size",)}, "needs strategy hybrid, and it"),
        ({"pinned": {"strategy": "fsdp"}}, "did you mean 'fsdp_full'"),
        ({"only": ("nccl_chanels",)}, "is no knob; did you mean 'nccl_channels'"),
    ],
)
def test_what_a_person_asks_for_in_vain_is_refused_with_the_reason(
    asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(FieldError, match=re.escape(says)):
        space_of(P4D, "nccl=2.27.5,plugin=1.17", **asked)
