"""What a script's arguments stand for, what is searched for it, and what is said of its losses."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import FieldError
from autotune.executors.host import describe_machine
from autotune.exporters import exporter, to_yaml
from autotune.exporters.document import from_yaml
from autotune.model import (
    DeviceKind,
    Measurement,
    Script,
    ShardingStrategy,
    Target,
    TrainingSettings,
    UserWorkload,
    Window,
)
from autotune.scoring.parity import disparity, unchecked
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.trainers.script.counts import Counts, rows
from autotune.trainers.script.imports import installed_imports
from autotune.user_script import read_script
from tests.bests import best_here

SETTINGS = TrainingSettings(micro_batch=4, accumulation_steps=2)


def script(*arguments: str, told: tuple[str, ...] = (), **more: object) -> Script:
    made = Script(program="train.py", arguments=arguments, folder="/nowhere", **more)  # type: ignore[arg-type]
    return replace(made, told=told or made.named)


@pytest.mark.parametrize(
    ("argument", "filled"),
    [
        ("--n={micro_batch}", "--n=4"),
        ("{micro_batch}x{accumulation_steps}={global_batch}", "4x2=16"),
        ("{strategy}", "ddp"),
        ("{static_graph} {bucket_cap_mb} {shard_size}", "false 25 none"),
        ('{"batch": {micro_batch}}', '{"batch": 4}'),
        ('{"batch":{"size":{micro_batch}}}', '{"batch":{"size":4}}'),
        ("{{micro_batch}}", "{micro_batch}"),
        ("{unknown} {{unknown}} {} {0} {a b}", "{unknown} {{unknown}} {} {0} {a b}"),
    ],
)
def test_settings_in_braces_are_filled_in(argument: str, filled: str) -> None:
    assert script(argument).rendered(SETTINGS, 2) == [filled]


def test_a_misspelt_setting_is_refused_unless_doubled() -> None:
    with pytest.raises(FieldError, match=r"did you mean \{accumulation_steps\}") as caught:
        _ = Script(program="t", arguments=("{acumulation_steps}",), folder="/").named
    assert "{{acumulation_steps}} is passed on" in caught.value.hint
    made = Script(program="t", arguments=("{{acumulation_steps}}",), folder="/")
    assert (made.named, made.rendered(SETTINGS, 2)) == ((), ["{acumulation_steps}"])


def space(made: Script, **options: object) -> Space:
    machine = describe_machine()
    workload = UserWorkload(
        name="train.py", parameters=1, blocks=0, block="", global_batch=16, module="", script=made
    )
    target = Target(instance="x", nodes=1, ranks_per_node=2, workload="train.py", global_batch=16)
    facts = Facts.of(machine, target, workload=workload)
    return Space(load_knobs([]), facts, **options)  # type: ignore[arg-type]


def test_only_what_a_script_is_told_is_searched() -> None:
    none = {c.get("accumulation_steps") for c in space(script()).candidates()}
    told = {c.get("accumulation_steps") for c in space(script("{accumulation_steps}")).candidates()}
    assert (none, told) == ({1}, {1, 2, 4, 8})
    # In the full space only, unless an argument names it.
    named = {c.get("static_graph") for c in space(script("{static_graph}")).candidates()}
    assert named == {False, True}
    for flag in ({"pinned": {"strategy": "ddp"}}, {"only": ["strategy"]}):
        with pytest.raises(FieldError, match=r"none of the script.s arguments has \{strategy\}"):
            space(script(), **flag)


def test_what_a_script_decides_is_the_only_value() -> None:
    own = {"strategy": "fsdp_grad_op", "reshard_after_forward": False}
    made = space(script(own=own))
    settings = {made.settings(candidate).strategy for candidate in made.candidates()}
    assert settings == {ShardingStrategy.FSDP_GRAD_OP}


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["trian.py"], "is no file here; did you mean 'train.py'"),
        (["torchrun", "train.py"], "is a launcher"),
        (["run.sh"], "is not a Python script"),
        (["/nowhere/train.py"], "is no file here"),
        (["../trian.py"], "is no file here; did you mean '../train.py'"),
        ([""], "names no script"),
        (["-m"], "names no module"),
        (["/"], "is no file here"),
    ],
)
def test_what_is_no_script_is_refused(
    words: list[str], rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.sh").write_text("")
    (tmp_path.parent / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FieldError, match=rule):
        read_script(words, None)


def test_what_a_script_reads_from_autotune_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("import autotune\nautotune.current().micro_batch\n")
    found = read_script(["-m", "pkg.train", "--x"], None)
    assert found.script is not None
    assert (found.script.told, found.script.is_module) == (("micro_batch",), True)
    assert found.file == str(tmp_path / "pkg" / "train.py")
    assert found.name != read_script(["-m", "pkg.train", "--y"], None).name


def test_a_batchs_rows_are_its_samples() -> None:
    import torch

    batch = {"meta": ["a"], "x": [torch.zeros(()), {"y": (torch.zeros(3, 2), torch.zeros(9))}]}
    assert rows(batch) == 3
    assert (rows("text"), rows([]), rows(7)) == (0, 0, 0)
    counts = Counts()
    for sizes in ([2, 2, 2], [2, 2], [2, 2], [2, 2], [1]):  # one read ahead, and a rest at the end
        for size in sizes:
            counts.read(torch.zeros(size))
        counts.close_step()
    assert (counts.usual().samples, counts.usual().reads) == (4, 2)


def measurement(losses: tuple[float, ...], **effective: object) -> Measurement:
    return Measurement(
        windows=(Window(index=0, steps=1, samples=1, seconds=1.0),), losses=losses,
        gradient_norms=(), peak_memory_bytes=(1,), allocator_retries=0, warmup_steps=1,
        effective=effective, build_s=1.0, warmup_s=1.0, parameters=1, versions={},  # type: ignore[arg-type]
    )  # fmt: skip


def test_nothing_is_claimed_of_losses_that_nobody_saw() -> None:
    device = DeviceKind.CPU
    seen = measurement((1.0, 0.9), loss_source="seen", samples_read=8)
    assert unchecked(seen, [seen, seen], device) == ""
    assert disparity(measurement((1.1, 1.0), loss_source="seen"), seen, device) == ""
    doubled = measurement((2.0, 1.8), loss_source="seen", samples_read=8)
    assert "loss of step 0 is 2" in disparity(doubled, seen, device)
    assert "differ from launch to launch" in unchecked(seen, [seen, doubled], device)
    assert "isn't seen" in unchecked(measurement((), loss_source="none"), [seen], device)
    more = measurement((1.0, 0.9), loss_source="seen", samples_read=16)
    assert "reads 16 samples" in disparity(more, seen, device)
    # A workload's own losses are held to what rounding explains, as ever.
    assert disparity(measurement((1.1,)), measurement((1.0,)), device) != ""


def test_the_answer_says_what_to_start() -> None:
    made = script("--name", "it's {micro_batch}", "naïve \n #x")
    plain = best_here()
    best = replace(plain, evidence=replace(plain.evidence, script=made))
    assert from_yaml(to_yaml(best), "best.yaml").evidence.script == made
    for form in ("torchrun", "slurm", "env", "accelerate", "lightning"):
        text = exporter(form).export(best)
        # In a comment, that no argument gets out of.
        assert "\n# Measured with: train.py --name 'it'\"'\"'s 4' 'naïve #x'\n" in text
        assert "Measured with" not in exporter(form).export(plain)


def test_only_installed_packages_are_imported_beforehand() -> None:
    source = (
        "import os, torch\nimport my_model\nfrom . import near\nfrom my_lib import x\n"
        "from numpy import array, ndarray\nfrom autotune import load\n"
        "if True:\n    import scipy\n"
    )
    found = list(installed_imports(ast.parse(source)))
    assert found == [("torch", []), ("numpy", ["array", "ndarray"])]
