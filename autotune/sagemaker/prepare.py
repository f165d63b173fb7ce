"""Prepares the job of a new run: where its files go, its role, container, limits and request."""

import os
from dataclasses import dataclass
from importlib.metadata import version

from autotune.errors import UserError
from autotune.executors.rank_environment import carried_environment
from autotune.model import StudySpec
from autotune.model.secrets import is_secret_name
from autotune.sagemaker.account import PREFIX, ROLE, Account
from autotune.sagemaker.cost import cost_of
from autotune.sagemaker.image import default_image
from autotune.sagemaker.plan import Plan, check_instance, job_name
from autotune.sagemaker.request import JobRequest
from autotune.sagemaker.wishes import Wishes
from autotune.space.instances import Price

UNKNOWN_ACCOUNT = "000000000000"
FALLBACK_REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The region and the account, or stand-ins for a request that is only shown."""

    region: str
    default_role: str
    default_s3: str
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, account: Account, wishes: Wishes) -> "Surroundings":
        """Asks AWS who this is, unless nothing depends on it. Raises as `aws_errors` does."""
        if account.region is None:
            raise UserError(
                "no AWS region is set",
                hint="export AWS_REGION=us-east-1, or aws configure set region us-east-1",
            )
        number = UNKNOWN_ACCOUNT if wishes.role and wishes.s3 else account.number
        return cls._named(account.region, number)

    @classmethod
    def to_show(cls, account: Account, wishes: Wishes) -> "Surroundings":
        """Without asking anything of AWS: the account's number is left open."""
        found = cls._named(account.region or FALLBACK_REGION, UNKNOWN_ACCOUNT)
        notices = []
        if account.region is None:
            notices.append(f"no AWS region is set; shown for {FALLBACK_REGION}")
        if not (wishes.role and wishes.s3):
            notices.append(f"{UNKNOWN_ACCOUNT} stands for your account, which isn't asked for")
        return cls(
            region=found.region,
            default_role=found.default_role,
            default_s3=found.default_s3,
            notices=tuple(notices),
        )

    @classmethod
    def _named(cls, region: str, number: str) -> "Surroundings":
        return cls(
            region=region,
            default_role=f"arn:aws:iam::{number}:role/{ROLE}",
            default_s3=f"s3://sagemaker-{region}-{number}/{PREFIX}",
        )


def prepare(
    run_id: str,
    spec: StudySpec,
    arguments: list[str],
    wishes: Wishes,
    around: Surroundings,
    price: Price | None,
) -> tuple[Plan, list[str]]:
    """The plan of the run's first job, and what a person should know. Raises UserError."""
    target = spec.target
    check_instance(target.instance)
    image, notice = _image(wishes, around.region, target.instance)
    cost = cost_of(
        budget_s=spec.budget_s, nodes=target.nodes, price=price, max_usd=wishes.max_usd,
        is_spot=wishes.is_spot,
    )  # fmt: skip
    request = JobRequest(
        name=job_name(run_id),
        run_id=run_id,
        role=wishes.role or around.default_role,
        image=image,
        instance=target.instance,
        nodes=target.nodes,
        s3=f"{wishes.s3 or around.default_s3}/{run_id}",
        max_runtime_s=cost.max_runtime_s,
        max_wait_s=cost.max_wait_s,
        keep_alive_s=wishes.keep_alive_s,
        environment=_environment(around.region),
    )
    plan = Plan(
        request=request, cost=cost, region=around.region, described=target.describe(),
        arguments=arguments, output=spec.output,
    )  # fmt: skip
    plan.checked()
    return plan, [*around.notices, *([notice] if notice else []), cost.describe()]


def _image(wishes: Wishes, region: str, instance: str) -> tuple[str, str]:
    if wishes.image is not None:
        return wishes.image, ""
    return default_image(region, instance, version("torch"))


def _environment(region: str) -> dict[str, str]:
    """As on Ray, what communication and PyTorch read goes along."""
    return {
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "PYTHONUNBUFFERED": "1",
        **{k: v for k, v in carried_environment(os.environ).items() if not is_secret_name(k)},
    }
