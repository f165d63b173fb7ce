"""From what a person asked for to a study, and from a stored study back to its space."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from autotune.compose import build_spec, new_study, runner
from autotune.errors import UserError
from autotune.loop.observer import Observer
from autotune.machines import Place
from autotune.model import GIB, Gpu, Machine, Study, StudySpec, decode, encode
from autotune.request import Request, Spaces, all_notices, build_space, build_target
from autotune.space.facts import Links
from autotune.space.instances import load_instances, machine_of
from autotune.space.knob import Searched
from autotune.space.nccl import Network
from autotune.space.space import Space
from autotune.storage import MemoryStore

PLACE = Place(
    machine=Machine(
        instance="local-4x-a100",
        gpus=(Gpu(name="NVIDIA A100-SXM4-40GB", memory_bytes=40 * GIB),) * 4,
        cpu="fake",
        cores=8,
        memory_bytes=64 * GIB,
        numa_nodes=2,
        versions={"torch": "2.9.1", "nccl": "2.27.5"},
    ),
    links=Links(nvlink=True, nvswitch=True, network=Network.SOCKET),
)
OWN = """
knobs:
  - name: nccl_nthreads
    choices: [{value: default}, {value: 256}]
"""


def asked(place: Place = PLACE, **given: Any) -> tuple[Request, Space]:
    request = Request(**{"environment": {}, **given})
    return request, build_space(request, place, build_target(request, place.machine))


def stored(request: Request, space: Space) -> Study:
    """A study after its way through the store."""
    spec = build_spec(request, build_target(request, PLACE.machine), space, PLACE)
    study = new_study(spec, PLACE.machine, MemoryStore())
    return decode(Study, encode(study))


def resumed(study: Study, environment: dict[str, str]) -> Space:
    return runner(study, PLACE, MemoryStore(), Observer(), Event(), environment).space


def test_a_study_keeps_all_that_its_space_depends_on(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    environment = {"NCCL_BUFFSIZE": "1048576", "HOME": "/"}
    request, space = asked(
        space=Spaces.of(str(path)),
        pinned={"NCCL_NCHANNELS": "8", "communication_hook": "bf16"},
        allow_lossy=True,
        environment=environment,
    )
    study = stored(request, space)
    assert study.spec.environment == {"NCCL_BUFFSIZE": "1048576"}
    assert study.spec.pinned == {"nccl_channels": 8, "communication_hook": "bf16"}
    path.unlink()
    again = resumed(study, environment)
    assert again.baseline() == space.baseline()
    assert again.knobs == space.knobs
    assert again.terms == space.terms
    assert again.environment(again.baseline()) == space.environment(space.baseline())


@pytest.mark.parametrize("name", ["default", "full"])
def test_how_much_is_searched_is_kept(name: str) -> None:
    request, space = asked(space=Spaces.of(name))
    assert space.searched is Searched(name)
    assert resumed(stored(request, space), {}).searched is Searched(name)


def test_studies_of_before_are_read() -> None:
    request, space = asked()
    old = encode(build_spec(request, build_target(request, PLACE.machine), space, PLACE))
    for field in ("space", "space_text", "instances_text", "allow_lossy", "environment"):
        del old[field]
    assert decode(StudySpec, old).space == "default"


@pytest.mark.parametrize("now", [{}, {"NCCL_BUFFSIZE": "2"}, {"NCCL_PROTO": "LL"}])
def test_another_environment_is_no_place_to_resume(now: dict[str, str]) -> None:
    study = stored(*asked(environment={"NCCL_BUFFSIZE": "1048576"}))
    with pytest.raises(UserError, match=r"another environment: NCCL_BUFFSIZE \(1048576 then, "):
        resumed(study, now)


def test_secrets_of_the_environment_are_kept_out_of_trials() -> None:
    environment = {"HF_TOKEN": "plainword", "HOME": "/home/ann"}
    study = stored(*asked())
    running = runner(study, PLACE, MemoryStore(), Observer(), Event(), environment)
    assert running.secrets.known == ("plainword",)


def test_a_stored_study_can_not_set_what_runs_code() -> None:
    study = stored(*asked())
    text = """
knobs:
  - name: own
    help: A test's.
    sets: {kind: environment, name: LD_PRELOAD}
    effect: small
    default: default
    choices: [{value: default}, {value: x.so}]
"""
    evil = replace(study, spec=replace(study.spec, space="own.yaml", space_text=text))
    with pytest.raises(UserError, match=r"own\.yaml:5.*'LD_PRELOAD' can't be set"):
        resumed(evil, {})


def test_what_doesn_t_hold_a_knob_may_change() -> None:
    study = stored(*asked(environment={"NCCL_DEBUG": "INFO"}))
    assert resumed(study, {"PATH": "/bin", "OMP_NUM_THREADS": "3"}).terms.held == {}


def test_names_are_explained() -> None:
    request, space = asked(
        pinned={"NCCL_NCHANNELS": "8"}, environment={"NCCL_THREADS": "64", "NCCL_DEBUG": "INFO"}
    )
    found = all_notices(request, space)
    assert len(found) == 2
    assert "--set NCCL_NCHANNELS is taken as nccl_channels" in found[0]
    assert "NCCL_THREADS=64 in the environment" in found[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pinned": {"NCCL_NCHANNELS": "8", "nccl_channels": "4"}}, "a second time"),
        ({"pinned": {"NCCL_NCHANNELS": "many"}}, "is not a value of this knob"),
        ({"pinned": {"NCCL_ALGO": "collnet_direct"}}, "is left out here"),
        (
            {"only": ("strategy",), "pinned": {"strategy": "ddp"}},
            "--only: 'strategy' can't be searched: --set strategy=ddp holds it$",
        ),
        (
            {"only": ("compile", "NCCL_NCHANNELS"), "pinned": {"nccl_channels": "8"}},
            "--only: 'NCCL_NCHANNELS' can't be searched: --set nccl_channels=8 holds it .*compile",
        ),
        ({"only": ("NCCL_FOO",)}, "--only: 'NCCL_FOO' does nothing"),
        ({"assumed": {"ncl": "2"}}, "--assume: 'ncl' is no fact; did you mean 'nccl'"),
        ({"assumed": {"nccl": "two"}}, "is not an NCCL version"),
        ({"assumed": {"nvlink": "maybe"}}, "--assume nvlink: 'maybe' has to be true or false"),
        ({"assumed": {"cores": "-1"}}, "--assume cores"),
        ({"assumed": {"network": "ethernet"}}, "--assume network: 'ethernet' is not known"),
        ({"assumed": {"nodes": "0"}}, "--assume nodes: '0' has to be from 1"),
        ({"assumed": {"nodes": "two"}}, "--assume nodes: 'two' has to be from 1"),
    ],
)
def test_what_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        asked(**given)


def test_a_space_that_is_no_file() -> None:
    with pytest.raises(
        UserError, match="'fulll' is neither a space nor a file; did you mean 'full'"
    ):
        Spaces.of("fulll")


def test_an_empty_space_file_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("# nothing\n")
    with pytest.raises(UserError, match=r"own\.yaml: is empty"):
        asked(space=Spaces.of(str(tmp_path / "own.yaml")))


def test_the_plugin_and_what_it_presets() -> None:
    entry = load_instances()["p4d.24xlarge"]
    place = Place(machine=machine_of(entry, {}), instance=entry, is_here=False)

    def facts(**assumed: str) -> Any:
        return asked(place, assumed=assumed, global_batch=64)[1].facts

    assert facts(nccl="2.27.5").presets["NCCL_BUFFSIZE"] == "8388608"
    assert facts(nccl="2.27.5").plugin_forces_simple
    assert facts(nccl="2.27.5", plugin="none").presets == {}
    assert not facts(nccl="2.27.5", plugin="none").plugin_forces_simple
    assert not facts(nccl="2.27.5", plugin_forces_simple="false").plugin_forces_simple
    # Before 2.18.5 the plugin turns NVLS off.
    assert facts(nccl="2.18.3").in_force("NCCL_NVLS_ENABLE") == "0"
    assert facts(nccl="2.18.5").in_force("NCCL_NVLS_ENABLE") is None
    assert facts(network="ib").presets == {}


@pytest.mark.parametrize(
    ("name", "plugin", "forced"),
    [
        ("p5.48xlarge", "1.21.1", False),
        ("p5.48xlarge", "1.7.2", True),
        ("p5.48xlarge", "1.7.3", False),
        ("p5.4xlarge", "1.21.1", True),
        ("p6-b200.48xlarge", "1.21.1", True),
        ("g5.48xlarge", "1.21.1", True),
    ],
)
def test_where_simple_is_forced(name: str, plugin: str, forced: bool) -> None:
    entry = load_instances()[name]
    place = Place(machine=machine_of(entry, {}), instance=entry, is_here=False)
    space = asked(place, assumed={"nccl": "2.27.5", "plugin": plugin})[1]
    assert space.facts.plugin_forces_simple is forced
