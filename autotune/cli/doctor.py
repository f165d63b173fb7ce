"""`autotune doctor`: whether what a run needs is there, before it costs anything."""

from enum import StrEnum
from typing import Annotated

import typer

from autotune.cli.options import Format, FormatOption, InstancesOption
from autotune.cli.render import print_json
from autotune.cli.sagemaker_options import (
    ImageOption,
    KeepAliveOption,
    RoleOption,
    S3Option,
    SpotOption,
    wishes_of,
)
from autotune.machines import catalogued_place
from autotune.model import encode
from autotune.sagemaker.installed import check_installed
from autotune.yaml_reader import parse_yaml, read_text

EXIT_FAILED = 1


class Checked(StrEnum):
    """Where a run would go."""

    SAGEMAKER = "sagemaker"


def doctor(
    instance: Annotated[
        str,
        typer.Option("--instance", help="The machine type, one of 'autotune instances'."),
    ],
    executor: Annotated[
        Checked,
        typer.Option("--executor", help="Where the run would go; the only one so far."),
    ] = Checked.SAGEMAKER,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=10_000, help="As for the run.")] = 1,
    role: RoleOption = None,
    image: ImageOption = None,
    s3: S3Option = None,
    spot: SpotOption = False,
    keep_alive: KeepAliveOption = None,
    instances: InstancesOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Check credentials, role, bucket, quota, image and price for a SageMaker job; start nothing.

    Exit codes: 0 all is there, 1 something is missing, 2 usage.
    """
    del executor  # there is one
    check_installed()
    from autotune.sagemaker.account import Account  # noqa: PLC0415 - boto3 is an extra
    from autotune.sagemaker.checks import Check, run_checks  # noqa: PLC0415

    sources = [parse_yaml(read_text(instances), str(instances))] if instances else []
    place = catalogued_place(instance, instances=sources)
    wishes = wishes_of(role=role, image=image, spot=spot, max_cost=None, s3=s3,
                       keep_alive=keep_alive)  # fmt: skip
    checks: list[Check] = []
    for check in run_checks(Account(), wishes, instance, place.instance, nodes):
        checks.append(check)
        if format_ is Format.TABLE:
            typer.echo(f"{'ok    ' if check.is_ok else 'failed'}  {check.name:12}{check.found}")
            if check.hint:
                typer.echo(f"                    hint: {check.hint}")
    if format_ is Format.JSON:
        print_json([encode(check) for check in checks])
    if not all(check.is_ok for check in checks):
        raise typer.Exit(EXIT_FAILED)
