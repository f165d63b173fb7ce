"""A user's own workload: found, checked, described, and its batches and blocks."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import autotune
from autotune.errors import AutotuneError, FieldError, UserError
from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.model import (
    DeviceKind,
    Dtype,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
    UserWorkload,
    decode,
    encode,
)
from autotune.model.protocol import Verdict
from autotune.model.user_workload import digest_of
from autotune.trainers.precision import with_own_dtype
from autotune.trainers.sources import build
from autotune.trainers.user_code import user_line
from autotune.user_workload import find_user_workload

CONTEXT = autotune.Context(device=torch.device("cpu"), seed=3)
MODULE = """
import threading
import time
import torch
from torch import nn
import autotune

def build(context, **changes):
    fields = dict(
        model=nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1)),
        batch=lambda step, first, count: torch.ones(count, 2),
        loss=lambda model, batch: model(batch).mean(),
        optimizer=torch.optim.AdamW,
    )
    return autotune.Workload(**(fields | changes))

def nothing(context):
    return None

def fails(context):
    half = 1
    return half / 0

def frozen(context):
    return build(context, model=nn.Linear(2, 1).requires_grad_(False))

def meta(context):
    return build(context, model=nn.Linear(2, 1, device="meta"))

def half(context):
    return build(context, dtype=torch.float16)

def stray(context):
    return build(context, blocks=[nn.Linear(1, 1)])

def words(context):
    return build(context, model="x")

def uncallable(context):
    return build(context, loss=7)

def narrow(context):
    return build(context, model=nn.Linear(2, 1).half())

def empty_batch(context):
    return build(context, global_batch=0)

class Models:
    @staticmethod
    def build(context):
        print("printed by the user's code")
        return build(context, global_batch=8)

def threaded(context):
    threading.Thread(target=time.sleep, args=(1e6,)).start()
    return build(context)

def leaves(context):
    raise SystemExit(0)

number = 7
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("user")
    (path / "own_models.py").write_text(MODULE)
    (path / "needs_more.py").write_text("import a_module_that_nobody_has\n")
    return path


def test_threads_of_the_user_are_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = find_user_workload("own_models:threaded")
    assert found
    assert found.parameters


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_models:nothing", "returned NoneType, and has to return autotune.Workload"),
        ("own_models:frozen", "no parameters to train"),
        ("own_models:meta", "parameters on meta, and the trial is on cpu"),
        ("own_models:half", "dtype: torch.float16 can't be used"),
        ("own_models:words", "model: 'str' has to be a torch.nn.Module"),
        ("own_models:uncallable", "loss: 'int' has to be a function"),
        ("own_models:narrow", "parameters in torch.float16, and trials train float32 ones"),
        ("own_models:stray", "blocks has modules that are not inside of the model"),
        ("own_models:empty_batch", "global_batch: 0 has to be a positive whole number"),
        ("own_models:buid", "names no function of own_models; did you mean 'build'?"),
        ("own_models:number", "names no function of own_models"),
        ("own_module:build", "is no module that can be imported here"),
        ("own_models", "is not known"),
    ],
)
def test_what_cannot_be_trained_is_refused(folder: Path, name: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        build(name, str(folder), CONTEXT)


def test_a_module_that_the_users_module_lacks_is_the_users_error(folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has") as caught:
        build("needs_more:build", str(folder), CONTEXT)
    assert re.search(r"needs_more\.py:1, in <module>$", user_line(caught.value))


def test_an_error_names_the_users_line_and_not_a_librarys(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        build("own_models:fails", str(folder), CONTEXT)
    line = MODULE.splitlines().index("    return half / 0") + 1
    assert user_line(caught.value).endswith(f"own_models.py:{line}, in fails")
    with pytest.raises(RuntimeError) as inside:
        nn.Linear(2, 2)(torch.ones(3))
    assert "test_own_workload.py:" in user_line(inside.value)
    with pytest.raises(AutotuneError) as ours:
        find_user_workload("tinny")
    assert "user_workload.py" not in user_line(ours.value)


def test_a_workload_is_described_as_it_is_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    found = find_user_workload("own_models:Models.build")
    assert found is not None
    assert (found.parameters, found.blocks, found.block) == (2 * 4 + 4 + 4 + 1, 2, "Linear")
    assert (found.global_batch, found.module, found.folder) == (8, "own_models", str(folder))
    assert decode(UserWorkload, json.loads(json.dumps(encode(found)))) == found
    out, err = capfd.readouterr()
    assert out == ""
    assert "printed by the user's code" in err
    assert find_user_workload("tiny") is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_models:fails", "ZeroDivisionError: division by zero (own_models.py:"),
        ("own_models:leaves", "own_models:leaves failed: SystemExit: 0"),
        ("needs_more:build", "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("tinny", "did you mean 'tiny'?"),
        ("own_models.py:build", "names a file; a module's name has no .py"),
        ("./own_models:build", "has to be MODULE:FUNCTION"),
        (":build", "has to be MODULE:FUNCTION"),
        ("own_models:", "has to be MODULE:FUNCTION"),
    ],
)
def test_what_fails_is_told_before_a_study(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        find_user_workload(name)
    assert "autotune/trainers" not in str(caught.value)


def test_a_changed_file_ends_the_study(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("one")
    own = UserWorkload(
        name="model:build", parameters=1, blocks=0, block="", global_batch=None, module="model",
        folder=str(tmp_path), file=str(path), digest=digest_of(path),
    )  # fmt: skip
    assert own.changed() == ""
    path.write_text("two")
    assert own.changed() == f"{path} has changed since the run began"
    path.unlink()
    assert "can't be read any more" in own.changed()
    assert replace(own, file="").changed() == ""
    launch = Launch(
        spec=TrialSpec(
            trial_id="0", workload="model:build", device=DeviceKind.CPU,
            settings=TrainingSettings(micro_batch=1),
        ),
        nodes=1, ranks_per_node=1, directory=tmp_path / "trial", time_limit_s=60.0,
    )  # fmt: skip
    with (
        LocalExecutor(workload=own, cold=True) as executor,
        pytest.raises(UserError, match="can't be read any more") as caught,
    ):
        executor.run(launch, lambda window: Verdict.GO, Event())
    assert "put the file back as it was and resume" in caught.value.hint


def test_batches_are_the_same_samples_however_they_are_asked_for() -> None:
    dataset = TensorDataset(torch.arange(100.0))
    batch = autotune.batches_of(dataset, CONTEXT)
    whole = batch(5, 0, 12)[0].tolist()
    parts = [x for first in (0, 4, 8) for x in batch(5, first, 4)[0].tolist()]
    assert parts == whole
    assert batch(6, 0, 12)[0].tolist() != whole
    assert len(set(whole)) > 6
    other = autotune.batches_of(dataset, replace(CONTEXT, seed=4))
    assert other(5, 0, 12)[0].tolist() != whole


def test_batches_are_moved_whatever_collate_makes() -> None:
    collate: Callable[[list[object]], object] = lambda samples: {  # noqa: E731
        "x": [torch.zeros(len(samples))],
        "name": ("text", torch.ones(1)),
    }
    context = replace(CONTEXT, device=torch.device("meta"))
    moved = autotune.batches_of(TensorDataset(torch.arange(9.0)), context, collate)(0, 0, 3)
    assert moved["x"][0].device.type == "meta"
    assert moved["name"][0] == "text"
    assert moved["name"][1].device.type == "meta"


def test_the_workloads_own_dtype_holds_unless_a_knob_says_otherwise() -> None:
    settings = TrainingSettings(strategy=ShardingStrategy.DDP, micro_batch=1)
    assert with_own_dtype(settings, None) == settings
    assert with_own_dtype(settings, torch.bfloat16).compute_dtype is Dtype.BFLOAT16
    pinned = replace(settings, compute_dtype=Dtype.FLOAT32)
    assert with_own_dtype(pinned, torch.bfloat16) == pinned


def test_importing_autotune_needs_no_torch() -> None:
    code = "import autotune, sys; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Worklod'"):
        autotune.Worklod  # noqa: B018
    assert issubclass(FieldError, AutotuneError)


@pytest.mark.parametrize(
    ("kind", "fields", "block"),
    [
        ("GPT2Config", {"n_layer": 2, "n_embd": 32, "n_head": 2}, "GPT2Block"),
        (
            "BertConfig",
            {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2},
            "BertLayer",
        ),
    ],
)
def test_a_language_model_of_transformers_is_built_without_weights(
    tmp_path: Path, kind: str, fields: dict[str, int], block: str
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    architecture = {"GPT2Config": "GPT2LMHeadModel", "BertConfig": "BertForMaskedLM"}[kind]
    config = getattr(transformers, kind)(architectures=[architecture], **fields)
    config.save_pretrained(tmp_path)
    workload = build(f"hf:{tmp_path}", "", CONTEXT)
    assert [type(b).__name__ for b in workload.blocks] == [block] * 2
    # No dropout: the same loss twice, and about that of a guess among all tokens.
    losses = [workload.loss(workload.model, workload.batch(0, 0, 2)).item() for _ in range(2)]
    assert losses[0] == losses[1] == pytest.approx(math.log(config.vocab_size), rel=0.1)


def test_what_is_no_language_model_of_transformers_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.T5Config(architectures=["T5ForConditionalGeneration"]).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="neither a causal nor a masked language model"):
        build(f"hf:{tmp_path}", "", CONTEXT)
    with pytest.raises(UserError, match="its configuration can't be read"):
        build(f"hf:{tmp_path / 'nothing'}", "", CONTEXT)
