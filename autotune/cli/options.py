"""The options that several commands share, and how their texts are read."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autotune.budget import seconds
from autotune.errors import FieldError
from autotune.executors.landscapes import shipped_names
from autotune.exporters.files import file_path
from autotune.strategies import NAMES

_LONGEST_VALUE = 256


class ExecutorName(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    RAY = "ray"
    SAGEMAKER = "sagemaker"
    SIMULATED = "simulated"


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


def _checked_batch(samples: int | None) -> int | None:
    if samples is not None and samples < 1:
        raise FieldError("--global-batch", samples, "has to be at least 1")
    return samples


_INSTANCE = typer.Option(
    "--instance",
    help="The machine type: 'local' is this machine, whatever it has; 'auto' asks EC2 for its "
    "name; for a name of the catalogue (see 'autotune instances') this machine has to be one. "
    "Needed for trials that aren't simulated.",
    show_default=True,
)
InstanceOption = Annotated[
    str,
    typer.Option(
        "--instance",
        help="The machine type: 'local' is this machine, 'auto' asks EC2 for its name, and any of "
        "'autotune instances' is described from the catalogue.",
        show_default=True,
    ),
]
OptionalInstance = Annotated[str | None, _INSTANCE]
ExecutorOption = Annotated[
    ExecutorName,
    typer.Option(
        "--executor",
        help="Where trials run: on this machine, on nodes of a Ray cluster (see docs/ray.md), in "
        "one job of Amazon SageMaker (see docs/sagemaker.md), or nowhere: simulated ones follow "
        "the landscape that --landscape names, on a clock of their "
        "own.",
    ),
]
NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=1,
        max=10_000,
        help="With --executor ray or sagemaker: nodes that each trial takes, all of each. "
        "Default: 1.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="With --executor ray: the cluster. Default: $RAY_ADDRESS, else the one that this "
        "machine is part of.",
    ),
]
ParallelOption = Annotated[
    str | None,
    typer.Option(
        "--parallel-trials",
        metavar="auto|M",
        help="With --executor ray: trials of the search at once, each on --nodes nodes of its own; "
        "auto is as many as there is room for. Before, the baseline is launched beside itself, and "
        "if it isn't as fast as alone, trials run one at a time. Default: 1.",
    ),
]
LandscapeOption = Annotated[
    str | None,
    typer.Option(
        "--landscape",
        metavar="NAME|FILE",
        help=f"With --executor simulated: {', '.join(shipped_names())}, or a YAML file "
        "(see docs/simulation.md).",
    ),
]
WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        help="What is trained: one of 'autotune workloads', MODULE:FUNCTION, hf:MODEL or "
        "torchvision:MODEL.",
    ),
]
NprocOption = Annotated[
    int | None,
    typer.Option(
        "--nproc",
        "--gpus-per-node",
        help="Ranks on a node, which is this machine or one of a cluster's. Default: one for each "
        "GPU; else up to 4, by cores.",
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--global-batch",
        callback=_checked_batch,
        max=2**31 - 1,
        help="Samples per optimizer step over all ranks, which no candidate changes. "
        "Default: the workload's.",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="DURATION|USD",
        help="For the whole study: wall time such as 90s, 30m or 2h, or money such as 20usd, "
        "by the instance's price. Default: 10m, or none with --trials.",
    ),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        help="Candidates to try in the search. The baseline, further launches of close candidates "
        "and the confirmation come on top, on a noisy machine 200 launches and more: give a "
        "--budget as well to limit the time.",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Of the search, the model and the data."),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="DURATION",
        help="Length of a measured window, of which a trial has three to five. Longer ones for "
        "steps that take seconds. Default: 0.25s.",
    ),
]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="DURATION",
        help="End by then, such as 55m: what is best is confirmed in time, or left for 'autotune "
        "resume'. For jobs that are killed after some time; the study keeps its --budget. A trial "
        "that is under way may end a minute later.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KNOB=VALUE", help="Hold a knob at one value, in the baseline too."
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KNOB,…",
        help="Search these knobs, none of which --set holds, and leave the others alone; may be "
        "given several times.",
    ),
]
SpaceOption = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="default|full|FILE",
        help="What is searched: the knobs that matter most, all of them, or those and a YAML file "
        "of knobs (see docs/search_spaces.md).",
    ),
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="|".join(NAMES),
        help="How the space is searched (see docs/strategies.md).",
        show_default=True,
    ),
]
LossyOption = Annotated[
    bool,
    typer.Option("--allow-lossy", help="Also try what changes numerics, such as compression."),
]
InstancesOption = Annotated[
    Path | None,
    typer.Option(
        "--instances", metavar="FILE", help="A YAML file that adds machine types to the catalogue."
    ),
]
NoImdsOption = Annotated[
    bool,
    typer.Option("--no-imds", help="With --instance auto, don't ask EC2's metadata service."),
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="Where runs are kept: sqlite:///FILE or postgresql://USER@HOST/NAME. "
        "Default: autotune.db in the data folder ($AUTOTUNE_HOME).",
    ),
]
MirrorOption = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="URL",
        envvar="AUTOTUNE_MIRROR",
        help="Also send each change of the run to s3://BUCKET/PREFIX or file:///FOLDER, from where "
        "'autotune resume RUN --mirror URL' goes on with it on any machine (see docs/store.md).",
    ),
]
RunIdOption = Annotated[
    str | None,
    typer.Option("--run-id", hidden=True, help="The run's id, for who has to know it before."),
]
ScriptArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- SCRIPT ARGUMENTS]",
        help="A training script of yours, or -m MODULE, with its arguments, instead of --workload. "
        "{micro_batch}, {accumulation_steps}, {strategy} and other settings in braces are filled "
        "in for each trial (see docs/own_script.md).",
    ),
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        "--samples-per-step",
        min=1,
        max=2**31 - 1,
        help="Of a script: samples per optimizer step over all ranks, taken as given. Default: "
        "counted from the batches of its DataLoaders, and held against --global-batch.",
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Of a script: print the commands that trials stand for. With --executor "
        "sagemaker: print the exact request. Nothing is started.",
    ),
]
ColdOption = Annotated[
    bool,
    typer.Option(
        "--cold",
        help="Start every rank as a fresh interpreter, which takes seconds for each trial, "
        "instead of forking it from a process that has PyTorch imported.",
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Let trials of the search run in the processes of the trial before, where nothing "
        "but settings of the trainer differs. Trials that are launched again, and those that "
        "confirm, never do. Saves the CUDA context and NCCL's start; not tried on GPUs yet.",
    ),
]
LogToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        metavar="TOOL:PLACE",
        help="Show the run in another tool while it runs: tensorboard:FOLDER, mlflow:URI, "
        "wandb:FOLDER (offline) or cloudwatch:stderr (figures for SageMaker's metrics). May be "
        "given more than once; one that fails ends no run.",
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="How the result is printed on stdout.")
]
ShareOption = Annotated[
    bool,
    typer.Option(
        "--share-machine",
        help="Go on although another run trains on this machine; the answer then says so.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Take a file that is unconfirmed, too."),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="A YAML file for what this run finds. Default: best/….yaml, for the "
        "answer that is kept.",
    ),
]


def output_path(text: str | None) -> Path | None:
    """The file in --output, if it is given. Raises FieldError for a folder."""
    return None if text is None else file_path(text, "--output")


def duration(text: str | None, field: str) -> float | None:
    """Seconds in a text such as 30m, if it is given. Raises FieldError."""
    return None if text is None else seconds(text, field)


def assignments(texts: Sequence[str], field: str) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    result: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if len(value) > _LONGEST_VALUE:
            raise FieldError(field, text, f"is longer than {_LONGEST_VALUE} characters")
        if not equals or not name.strip() or not value.strip():
            raise FieldError(field, text, "has to be KNOB=VALUE, such as strategy=ddp")
        if name.strip() in result:
            raise FieldError(field, text, f"sets {name.strip()} a second time")
        result[name.strip()] = value.strip()
    return result


def names(texts: Sequence[str] | None, field: str) -> tuple[str, ...]:
    """The names in comma-separated lists, each of which names something. Raises FieldError."""
    found: list[str] = []
    for text in texts or ():
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise FieldError(field, text, "names nothing")
        found += parts
    return tuple(found)
