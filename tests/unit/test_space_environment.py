"""Names of variables in place of knobs, and what the user's environment decides already."""

from dataclasses import replace
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.model import DeviceKind
from autotune.space.catalogue import load_knobs
from autotune.space.environment import holding, named, notices
from autotune.space.facts import Facts
from autotune.space.knob import Searched
from autotune.space.nccl import Network
from autotune.space.space import Space
from autotune.space.view import view

KNOBS = load_knobs()


def facts(**given: Any) -> Facts:
    base: dict[str, Any] = {
        "device": DeviceKind.CUDA,
        "nodes": 1,
        "ranks_per_node": 8,
        "global_batch": 64,
        "nccl": "2.27.5",
        "compute_capability": 90,
        "nvswitch": True,
        "blocks": 12,
    }
    return Facts(**{**base, **given})


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("nccl_channels", "nccl_channels"),
        ("NCCL_NCHANNELS", "nccl_channels"),
        ("NCCL_BUFFSIZE", "nccl_buffer_bytes"),
        ("NCCL_ALGO", "nccl_algorithm"),
        ("NCCL_PROTO", "nccl_protocol"),
        ("NCCL_THREADS", "nccl_nthreads"),
        ("OMP_NUM_THREADS", "cpu_threads"),
    ],
)
def test_a_variable_names_its_knob(name: str, knob: str) -> None:
    found = named(name, KNOBS, "--set")
    assert found.knob.name == knob
    assert bool(found.notice) == (name in ("NCCL_NCHANNELS", "NCCL_THREADS"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NCCL_MIN_CTAS", "only a part of what nccl_channels sets"),
        ("NCCL_FOO_BAR", "does nothing: no NCCL up to"),
        ("NCCL_IB_TC", "is no knob"),
        ("LD_PRELOAD", "is no knob"),
        ("strategi", "did you mean 'strategy'"),
    ],
)
def test_other_names_are_refused(name: str, says: str) -> None:
    with pytest.raises(FieldError, match=says) as caught:
        named(name, KNOBS, "--set")
    if name == "NCCL_IB_TC":
        assert "in the environment" in caught.value.hint


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        ("nccl_algorithm", "NVLSTree", "nvls_tree"),
        ("nccl_algorithm", "Ring", "ring"),
        ("nccl_protocol", "LL128", "ll128"),
        ("nccl_p2p_level", "sys", "SYS"),
    ],
)
def test_values_may_be_spelt_as_nccl_does(knob: str, text: str, value: str) -> None:
    assert next(k for k in KNOBS if k.name == knob).parse(text) == value


def test_a_variable_of_the_user_holds_its_knob() -> None:
    environment = holding(KNOBS, {"NCCL_BUFFSIZE": "1048576", "HOME": "/", "OMP_NUM_THREADS": "3"})
    assert environment == {"NCCL_BUFFSIZE": "1048576"}
    space = Space(KNOBS, facts(environment=environment), searched=Searched.FULL)
    seen = view(space, space.knob("nccl_buffer_bytes"))
    assert seen.held_by == "NCCL_BUFFSIZE=1048576"
    assert not seen.searched
    baseline = space.baseline()
    assert baseline["nccl_buffer_bytes"] == "default"
    # What holds in every trial belongs to the answer.
    assert space.environment(baseline) == environment


def test_a_pin_goes_before_the_environment() -> None:
    known = facts(environment={"NCCL_BUFFSIZE": "1048576"})
    space = Space(KNOBS, known, pinned={"nccl_buffer_bytes": 2097152})
    assert space.environment(space.baseline()) == {"NCCL_BUFFSIZE": "2097152"}
    with pytest.raises(FieldError, match="contradicts NCCL_MAX_NCHANNELS=2 in the environment"):
        Space(
            KNOBS, facts(environment={"NCCL_MAX_NCHANNELS": "2"}), pinned={"nccl_channels": 8}
        )  # fmt: skip
    same = facts(environment={"NCCL_MAX_CTAS": "2"})
    space = Space(KNOBS, same, pinned={"nccl_channels": 8})
    assert space.environment(space.baseline()) == {"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "8"}


def test_nvls_that_is_off_is_no_algorithm() -> None:
    def algorithms(**environment: str) -> set[object]:
        space = Space(KNOBS, facts(environment=environment), pinned={"strategy": "ddp"})
        return set(view(space, space.knob("nccl_algorithm")).values)

    assert "nvls" in algorithms()
    assert "nvls" not in algorithms(NCCL_NVLS_ENABLE="0")
    # NVLS has the simple protocol only.
    assert "nvls" not in algorithms(NCCL_PROTO="LL")
    assert "tree" in algorithms(NCCL_PROTO="LL")


def test_protocols_go_with_the_algorithm_that_the_user_forces() -> None:
    known = facts(environment={"NCCL_ALGO": "allreduce:nvls"})
    space = Space(KNOBS, known, pinned={"strategy": "ddp"})
    seen = view(space, space.knob("nccl_protocol"))
    assert seen.values == ("default", "simple")
    assert "would leave all-reduce without an algorithm" in seen.left_out["ll"]


def test_averages_are_not_asked_of_nvls() -> None:
    def forced(*, sums: bool) -> str:
        pinned = {"strategy": "fsdp_full", "nccl_algorithm": "nvls", "force_sum_reduction": sums}
        space = Space(KNOBS, facts(), pinned=pinned)
        return space.environment(space.baseline())["NCCL_ALGO"].partition(";")[2]

    assert forced(sums=False) == "allgather:nvls"
    assert forced(sums=True) == "allgather:nvls;reducescatter:nvls"


def test_a_variable_that_this_version_does_not_read_is_no_knob() -> None:
    space = Space(KNOBS, facts(nccl="2.20.5"), pinned={"strategy": "ddp"})
    reason = view(space, space.knob("nccl_nvls_chunk_bytes")).reason
    assert "sets NCCL_NVLS_CHUNKSIZE: NCCL reads it from 2.21" in reason


def test_without_a_version_nothing_is_held_against_a_variable() -> None:
    knob = next(knob for knob in KNOBS if knob.name == "nccl_nvls_chunk_bytes")
    free = replace(knob, when={}, touches=())
    space = Space([*KNOBS[:1], free], facts(nccl="", device=DeviceKind.CPU))
    assert view(space, free).values == ("default", 262144, 524288)
    rule = next(knob for knob in KNOBS if knob.name == "nccl_algorithm")
    with pytest.raises(FieldError, match="has to be known for a rule of this space"):
        Space([*KNOBS[:1], replace(rule, when={})], facts(nccl="")).baseline()


def test_what_the_plugin_sets_is_not_tried_again() -> None:
    known = facts(presets={"NCCL_BUFFSIZE": "8388608"})
    space = Space(KNOBS, known, only=["nccl_buffer_bytes"])
    values = {c["nccl_buffer_bytes"] for c in space.candidates()}
    assert values == {"default", 2097152, 4194304, 16777216}
    with pytest.raises(FieldError, match="is what the EFA plugin sets here"):
        Space(KNOBS, known, pinned={"nccl_buffer_bytes": 8388608})


def test_what_no_step_uses_is_left_out() -> None:
    for strategy in ("ddp", "fsdp_full"):
        space = Space(KNOBS, facts(), pinned={"strategy": strategy}, searched=Searched.FULL)
        assert "send" in view(space, space.knob("nccl_p2p_net_chunksize")).reason
        assert "there is one node" in view(space, space.knob("nccl_socket_nthreads")).reason


def test_nvls_and_its_switch_don_t_contradict() -> None:
    space = Space(KNOBS, facts(), pinned={"nccl_algorithm": "nvls"}, searched=Searched.FULL)
    assert view(space, space.knob("nccl_nvls")).values == ("default",)


def test_strategies_that_the_environment_starves_are_left_out() -> None:
    space = Space(KNOBS, facts(environment={"NCCL_ALGO": "Tree"}))
    seen = view(space, space.knob("strategy"))
    assert seen.values == ("ddp",)
    assert "all-gather without an algorithm" in seen.left_out["fsdp_full"]


def test_threads_times_sockets_stays_within_nccl_s_limit() -> None:
    known = facts(nodes=2, between_nodes=Network.SOCKET, nvswitch=False)
    space = Space(KNOBS, known, only=["nccl_socket_nthreads", "nccl_nsocks_perthread"])
    pairs = [(c["nccl_socket_nthreads"], c["nccl_nsocks_perthread"]) for c in space.candidates()]
    assert ("default", 16) in pairs
    assert (4, 16) in pairs
    assert (8, 16) not in pairs
    assert (8, 8) in pairs


def test_summing_is_tried_where_it_makes_nvls_possible() -> None:
    def values(**given: Any) -> tuple[object, ...]:
        space = Space(KNOBS, facts(**given), pinned={"strategy": "fsdp_full"})
        return view(space, space.knob("force_sum_reduction")).values

    assert values() == (False, True)
    assert values(compute_capability=80) == (False,)
    # One rank on each node is what PAT is for.
    many = {"nodes": 4, "ranks_per_node": 1, "nvswitch": False}
    assert values(between_nodes=Network.IB, **many) == (False, True)


def test_the_old_plugin_s_fault_is_known() -> None:
    known = facts(nccl="2.20.5", plugin="1.16.2", compute_capability=80)
    space = Space(KNOBS, known, pinned={"strategy": "ddp"})
    seen = view(space, space.knob("nccl_algorithm"))
    assert seen.values == ("default",)
    assert "1.16.2 fails" in seen.left_out["tree"]


@pytest.mark.parametrize(
    ("environment", "given", "says"),
    [
        ({"NCCL_NCHANNELS": "8"}, {}, "Set nccl_channels"),
        ({"NCCL_SOCKET_IFNAME": "efa"}, {}, "no network interface called efa"),
        ({"NCCL_PAT_ENABLE": "1"}, {"nccl": "2.21.5"}, "reads it from 2.23"),
        ({"NCCL_ALGO": "Tree"}, {}, "leave broadcast without an algorithm with strategy ddp"),
        ({"NCCL_ALGO": "Treee"}, {}, "Unrecognized element token"),
        ({"NCCL_PROTO": "LL"}, {"plugin_forces_simple": True}, "may corrupt data"),
        ({"RDMAV_FORK_SAFE": "1"}, {}, "AWS says not to set it"),
    ],
)
def test_variables_that_do_nothing_or_harm_are_told(
    environment: dict[str, str], given: dict[str, Any], says: str
) -> None:
    found = notices(environment, facts(**given))
    assert any(says in line for line in found), found
    assert all(next(iter(environment)) in line for line in found)


def test_sensible_variables_are_passed_over() -> None:
    fine = {"NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "en", "PATH": "/bin", "NCCL_ALGO": "ring"}
    assert notices(fine, facts()) == []
