"""Which container a job runs in: AWS's own one for PyTorch, by the SDK's lookup."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from autotune.errors import ABSENT, FieldError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

OLDEST = (2, 6)
"""PyTorch that autotune works with."""


def default_image(region: str, instance: str, torch_version: str) -> tuple[str, str]:
    """The URI, and a notice if the container's PyTorch isn't the one that is installed here.

    Raises UserError without the SDK, and if it knows no fitting container.
    """
    if find_spec("sagemaker") is None or find_spec("sagemaker.core") is None:
        raise FieldError(
            "--image", ABSENT,
            "has to be given, because SageMaker's SDK, which knows AWS's containers, isn't here",
            hint="pip install 'autotune-train[sagemaker]', or give a container of your own",
        )  # fmt: skip
    # The import takes seconds, and only this needs it.
    from sagemaker.core import image_uris  # noqa: PLC0415

    try:
        known = image_uris.config_for_framework("pytorch")["training"]["versions"]
        version = nearest(torch_version, known)
        uri = image_uris.retrieve(
            framework="pytorch", region=region, version=version, image_scope="training",
            instance_type=f"ml.{instance}",
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise UserError(
            f"--image: SageMaker's SDK knows no container for {instance} in {region}: {error}",
            hint="give one with --image, or upgrade sagemaker-core",
        ) from None
    here = torch_version.partition("+")[0]
    notice = "" if version == here else (
        f"the container has PyTorch {version}, the newest that AWS has up to {here}, which is here"
    )  # fmt: skip
    return str(uri), notice


def nearest(wanted: str, known: "Iterable[str]") -> str:
    """The newest of the known versions that isn't newer than `wanted`. Raises ValueError."""
    most = _numbers(wanted)
    fitting = [name for name in known if _numbers(name)[:2] >= OLDEST and _numbers(name) <= most]
    if not fitting:
        raise ValueError(f"none has PyTorch from 2.6 to {wanted}")
    return max(fitting, key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    plain = version.partition("+")[0].split(".")
    return tuple(int(part) for part in plain if part.isdecimal())
