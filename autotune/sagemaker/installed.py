"""Whether what talks to AWS is installed."""

from importlib.util import find_spec

from autotune.errors import UserError


def check_installed() -> None:
    """Raises UserError without boto3, which an extra brings."""
    if find_spec("boto3") is None:
        raise UserError(
            "--executor sagemaker needs boto3, which isn't installed",
            hint="pip install 'autotune-train[sagemaker]'",
        )
