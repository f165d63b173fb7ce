"""What a configuration may set in the ranks' environment, wherever it comes from."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import FieldError, UserError
from autotune.exporters import EXPORTERS, from_yaml, to_yaml
from autotune.model.variables import name_fault, value_fault
from autotune.space.catalogue import load_knobs
from autotune.space.environment import holding
from autotune.space.knob import TargetKind
from autotune.space.nccl.names import SINCE
from autotune.yaml_reader import parse_yaml
from tests.unit.test_best_yaml import EXAMPLE

CODE = [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "PATH", "IFS",
    "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONWARNINGS", "ld_preload",
    "PYTHONBREAKPOINT", "HOME", "TMPDIR", "CC", "GIT_SSH_COMMAND", "NODE_OPTIONS", "RDMAV_DRIVERS",
    "OMPI_MCA_mca_base_component_path", "BASH_FUNC_ls",
]  # fmt: skip
PLACES = [
    "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN",
    "NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_DEBUG_FILE", "NCCL_IBVERBS_LIB",
    "NCCL_TOPO_DUMP_FILE", "FI_PROVIDER_PATH", "CUDA_INJECTION64_PATH", "OMP_TOOL_LIBRARIES",
    "TORCHINDUCTOR_CACHE_DIR", "https_proxy", "HF_ENDPOINT", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
]  # fmt: skip
SECRET = ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "DB_PASSWORD"]
RANKS = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "NCCL_COMM_ID", "CUDA_VISIBLE_DEVICES", "PET_X"]
KNOB = """
knobs:
  - name: own
    help: A test's.
    sets: {{kind: environment, name: {name}}}
    effect: small
    default: default
    choices: [{{value: default}}, {{value: "{value}"}}]
"""


def load(name: str, value: str = "1") -> None:
    load_knobs([parse_yaml(KNOB.format(name=name, value=value), "own.yaml")])


def document(name: str, value: str = "1") -> str:
    newest = EXAMPLE.replace("2.29.7", "2.31.0")  # which reads all that is listed here
    return newest.replace("    NCCL_BUFFSIZE: ", f'    {name}: "{value}"\n    NCCL_BUFFSIZE: ', 1)


def test_a_network_is_no_path() -> None:
    assert not value_fault("NCCL_IB_ADDR_RANGE", "10.0.0.0/8")
    assert not value_fault("NCCL_IB_ADDR_RANGE", "fe80::/10")
    for name, value in [
        ("NCCL_IB_ADDR_RANGE", "/etc/8"),
        ("NCCL_IB_ADDR_RANGE", "10.0.0.0/8/9"),
        ("NCCL_SOCKET_IFNAME", "10.0.0.0/8"),
    ]:
        assert "is a path or an address" in value_fault(name, value)


@pytest.mark.parametrize("name", [*CODE, *SECRET, *RANKS])
def test_these_are_never_set(name: str) -> None:
    with pytest.raises(UserError, match=r"own\.yaml:5: knobs\[0\]\.sets\.name: ") as caught:
        load(name)
    assert "set it yourself" in caught.value.hint
    with pytest.raises(UserError, match=rf"best\.yaml:\d+: settings\.environment\.{name}: ") as two:
        from_yaml(document(name), "best.yaml")
    assert "set it yourself" in two.value.hint


@pytest.mark.parametrize("name", PLACES)
def test_these_name_a_file_a_library_or_an_address(name: str) -> None:
    with pytest.raises(UserError, match="names a file, a library or an address"):
        load(name, "evil")
    with pytest.raises(UserError, match="names a file, a library or an address"):
        from_yaml(document(name, "evil"), "best.yaml")
    # Not to use one is a setting like others.
    assert from_yaml(document(name, "none"), "best.yaml").environment[name] == "none"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("/tmp/evil.so", "is a path or an address"),
        ("../evil", "is a path or an address"),
        ("http://evil", "is a path or an address"),
        ("hf_abcdefghijklmnop1234", "looks like a secret"),
        ("x" * 5000, "at most 4096 characters"),
    ],
)
def test_no_variable_has_such_a_value(value: str, rule: str) -> None:
    with pytest.raises(UserError, match=rule) as caught:
        load("MY_SETTING", value)
    assert value not in str(caught.value)[: len(value) + 40] or "path" in rule
    with pytest.raises(UserError, match=rule):
        from_yaml(document("MY_SETTING", value), "best.yaml")


@pytest.mark.parametrize("form", EXPORTERS)
def test_no_export_sets_them(form: str) -> None:
    best = from_yaml(EXAMPLE, "best.yaml")
    for name, value in (("LD_PRELOAD", "x.so"), ("NCCL_NET_PLUGIN", "evil"), ("X", "/tmp/x")):
        evil = replace(best, environment={name: value})
        with pytest.raises(FieldError, match=name):
            EXPORTERS[form].export(evil)
        with pytest.raises(FieldError, match=name):
            to_yaml(evil)


def test_a_files_knob_can_not_have_a_secret_noted_with_the_study() -> None:
    """The variables of a logical knob are looked up in the user's environment, and stored."""
    text = """
knobs:
  - name: nccl_algorithm
    variables: [AWS_SECRET_ACCESS_KEY]
"""
    with pytest.raises(UserError, match=r"variables\[0\].*'AWS_SECRET_ACCESS_KEY' can't be set"):
        load_knobs([parse_yaml(text, "own.yaml")])


def test_what_holds_a_knob_here_has_to_be_fit_for_an_answer() -> None:
    with pytest.raises(FieldError, match=r"^NCCL_ALGO in the environment: '/tmp/x' can't be set"):
        holding(load_knobs(), {"NCCL_ALGO": "/tmp/x", "LD_PRELOAD": "/x"})
    assert holding(load_knobs(), {"NCCL_ALGO": "ring", "HOME": "/x"}) == {"NCCL_ALGO": "ring"}


def test_what_is_tuned_may_be_set() -> None:
    for knob in load_knobs():
        for name in knob.all_variables:
            assert not name_fault(name), name
        if knob.sets.kind is TargetKind.ENVIRONMENT:
            for choice in knob.choices:
                assert not value_fault(knob.sets.name, str(choice.value)), knob.name
    for name in SINCE:
        assert not name_fault(name) or name == "NCCL_COMM_ID", name
    for name, value in {
        "NCCL_ALGO": "allreduce:ring,tree;broadcast:ring",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_SOCKET_IFNAME": "^lo,docker0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
        "FI_EFA_USE_DEVICE_RDMA": "1",
        "OMP_NUM_THREADS": "8",
        "MY_LOADERS": "a b\t$HOME `c` 'd' \"e\"",
    }.items():
        assert not name_fault(name), name
        assert not value_fault(name, value), name


def test_the_docs_say_what_is_refused() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
    for name in ("LD_*", "PYTHONPATH", "GLIBC_TUNABLES", "NCCL_NET_PLUGIN", "TOKEN"):
        assert name in page
