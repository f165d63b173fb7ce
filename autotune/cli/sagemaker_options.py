"""The options of `--executor sagemaker`, and what was asked for with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from autotune.budget import Budget, seconds
from autotune.cli.option_set import quotable
from autotune.cli.options import ExecutorName
from autotune.errors import FieldError
from autotune.sagemaker.wishes import Wishes
from autotune.storage.objects import BUCKET_NAME

_WITH = "With --executor sagemaker:"
RoleOption = Annotated[
    str | None,
    typer.Option(
        "--role",
        metavar="ARN",
        help=f"{_WITH} what the job may do. Default: the role autotune-sagemaker of your account.",
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option(
        "--image",
        metavar="URI",
        help=f"{_WITH} the container. Default: AWS's own for the PyTorch that is installed here.",
    ),
]
SpotOption = Annotated[
    bool,
    typer.Option(
        "--spot",
        help=f"{_WITH} use spot instances; what was measured before an interruption is kept.",
    ),
]
MaxCostOption = Annotated[
    str | None,
    typer.Option(
        "--max-cost",
        metavar="USD",
        help=f"{_WITH} end the job once it has cost so much, such as 200usd, by the catalogue's "
        "price; with 'resume' all jobs of the run count.",
    ),
]
S3Option = Annotated[
    str | None,
    typer.Option(
        "--s3",
        metavar="s3://BUCKET/PREFIX",
        help=f"{_WITH} where the run's files go. Default: s3://sagemaker-REGION-ACCOUNT/autotune.",
    ),
]
KeepAliveOption = Annotated[
    str | None,
    typer.Option(
        "--keep-alive",
        metavar="DURATION",
        help=f"{_WITH} keep the instances, which costs as much, for the next job, such as 30m.",
    ),
]
DetachOption = Annotated[
    bool,
    typer.Option(
        "--detach",
        help=f"{_WITH} submit the job and end; 'autotune resume RUN' follows it.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class SagemakerOptions:
    """What was asked for of AWS."""

    nodes: int
    wishes: Wishes
    detach: bool


def chosen_sagemaker(
    executor: ExecutorName,
    own: Mapping[str, str | bool | None],
    *,
    nodes: int | None,
    others: Mapping[str, object],
) -> SagemakerOptions | None:
    """What is asked for of SageMaker; None with another executor.

    `own` are its own options by name, `others` those that mean nothing with it. Raises FieldError
    for what contradicts itself.
    """
    if executor is not ExecutorName.SAGEMAKER:
        for name, value in own.items():
            if value:
                raise FieldError(name, quotable(value), "needs --executor sagemaker")
        return None
    for name, given in others.items():
        if given:
            raise FieldError(name, quotable(given), "doesn't go with --executor sagemaker")
    wishes = wishes_of(
        role=_text(own["--role"]),
        image=_text(own["--image"]),
        spot=bool(own["--spot"]),
        max_cost=_text(own["--max-cost"]),
        s3=_text(own["--s3"]),
        keep_alive=_text(own["--keep-alive"]),
    )
    return SagemakerOptions(nodes=nodes or 1, wishes=wishes, detach=bool(own["--detach"]))


def wishes_of(
    *,
    role: str | None,
    image: str | None,
    spot: bool,
    max_cost: str | None,
    s3: str | None,
    keep_alive: str | None,
) -> Wishes:
    """What the texts of these options come to. Raises FieldError."""
    if spot and keep_alive:
        raise FieldError(
            "--keep-alive", keep_alive, "doesn't go with --spot: SageMaker keeps no spot instances"
        )
    return Wishes(
        role=role,
        image=image,
        is_spot=spot,
        max_usd=money(max_cost),
        s3=_place(s3),
        keep_alive_s=_keep_alive(keep_alive),
    )


def money(text: str | None) -> float | None:
    """Dollars in 200usd. Raises FieldError for anything else."""
    if text is None:
        return None
    rule = "has to be a sum above 0 with its currency, such as 200usd"
    if not text.strip().lower().endswith("usd"):
        raise FieldError("--max-cost", text, rule)
    try:
        return Budget.parse(text).usd
    except FieldError:
        raise FieldError("--max-cost", text, rule) from None


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None


def _keep_alive(text: str | None) -> int | None:
    return None if text is None else round(seconds(text, "--keep-alive"))


def _place(text: str | None) -> str | None:
    if text is None:
        return None
    scheme, _, rest = text.partition("://")
    if scheme != "s3" or not BUCKET_NAME.fullmatch(rest.partition("/")[0]):
        raise FieldError(
            "--s3", text, "has to be s3://BUCKET/PREFIX, the bucket in 3 to 63 small letters, "
            "digits, dots and hyphens",
        )  # fmt: skip
    return text.rstrip("/")
