"""What is checked before a job costs money: credentials, role, bucket, quota, image, price."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote, urlsplit

from autotune.errors import AutotuneError, UserError
from autotune.sagemaker.account import Account
from autotune.sagemaker.aws_errors import DOCS, aws_errors
from autotune.sagemaker.image import default_image
from autotune.sagemaker.plan import check_instance
from autotune.sagemaker.prepare import Surroundings
from autotune.sagemaker.wishes import Wishes
from autotune.space.instances import InstanceType

SERVICE = "sagemaker.amazonaws.com"
_ECR = ".dkr.ecr."


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the doctor's."""

    name: str
    is_ok: bool
    found: str
    hint: str = ""


def run_checks(
    account: Account, wishes: Wishes, instance: str, entry: InstanceType | None, nodes: int
) -> Iterator[Check]:
    """One after the other, as they are answered; without credentials there is only one."""
    who = _checked("credentials", partial(_credentials, account))
    yield who
    if not who.is_ok:
        return
    around = Surroundings.of(account, wishes)
    role = wishes.role or around.default_role
    bucket = urlsplit(wishes.s3 or around.default_s3).netloc
    steps: Mapping[str, Callable[[], str]] = {
        "role": partial(_role, account, role),
        "bucket": partial(_bucket, account, bucket),
        "instance": partial(_instance, instance),
        "quota": partial(_quota, account, instance, nodes, wishes),
        "image": partial(_image, account, around.region, instance, wishes.image),
        "price": partial(_price, entry, nodes),
    }
    names = {
        "s3://BUCKET": f"s3://{bucket}",
        "--role-name ROLE": f"--role-name {role.rpartition('/')[2]}",
    }
    for name, ask in steps.items():
        yield _checked(name, ask, names)


def _checked(name: str, ask: Callable[[], str], names: Mapping[str, str] = {}) -> Check:
    """`names` are put in the place of a hint's words, so that its command can be copied."""
    try:
        return Check(name=name, is_ok=True, found=ask())
    except AutotuneError as error:
        hint = error.hint or _HINTS.get(name, "")
        for word, own in names.items():
            hint = hint.replace(word, own)
        return Check(name=name, is_ok=False, found=str(error), hint=hint)


_OWN_IMAGE = f"{DOCS}, Bring your own image"
_MORE = "ask for more, which may take days: Service Quotas, Amazon SageMaker, in this region"
_HINTS = {
    "instance": "autotune instances lists machine types; not all of them are SageMaker's",
    "quota": "look yourself, and ask for more: Service Quotas, Amazon SageMaker, in this region; "
    f"{DOCS}, step 4",
    "image": f"push it to ECR: {_OWN_IMAGE}",
}
"""Where an error has none of its own."""


def _credentials(account: Account) -> str:
    if account.region is None:
        raise UserError("no AWS region is set", hint="export AWS_REGION=us-east-1")
    return f"account {account.number}, region {account.region}"


def _role(account: Account, arn: str) -> str:
    name = arn.rpartition("/")[2]
    with aws_errors(f"role {name} (iam:GetRole)"):
        found = account.client("iam").get_role(RoleName=name)["Role"]
    if found["Arn"] != arn:
        raise UserError(
            f"{arn}: the role of this name is {found['Arn']}", hint=f"--role {found['Arn']}"
        )
    if not _trusts(found["AssumeRolePolicyDocument"]):
        raise UserError(
            f"{arn}: its trust policy doesn't name {SERVICE}",
            hint=f"aws iam update-assume-role-policy --role-name {name} --policy-document "
            "file://docs/sagemaker/trust-policy.json",
        )
    return f"{arn}, SageMaker may take it on"


def _trusts(document: Any) -> bool:
    """Whether some statement lets SageMaker assume the role."""
    policy = json.loads(unquote(document)) if isinstance(document, str) else document
    statements = policy.get("Statement", [])
    for one in [statements] if isinstance(statements, dict) else statements:
        principal = one.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        named = [services] if isinstance(services, str) else services
        if one.get("Effect") == "Allow" and SERVICE in named:
            return True
    return False


def _bucket(account: Account, bucket: str) -> str:
    account.check_bucket(bucket)
    return f"s3://{bucket}"


def _instance(instance: str) -> str:
    check_instance(instance)
    return f"ml.{instance} can train"


def _quota(account: Account, instance: str, nodes: int, wishes: Wishes) -> str:
    """The one for what is asked for, and the warm pool's."""
    kind = "spot training job usage" if wishes.is_spot else "training job usage"
    names = [f"ml.{instance} for {kind}"]
    if wishes.keep_alive_s is not None:
        names.append(f"ml.{instance} for training warm pool usage")
    values = _quotas(account)
    for name in names:
        allowed = values.get(name)
        if allowed is None:
            raise UserError(f"there is no quota named {name!r} in {account.region}", hint=_MORE)
        if allowed < nodes:
            raise UserError(f"{name}: {allowed:g}, and {nodes} are needed", hint=_MORE)
    return ", ".join(f"{name}: {values[name]:g}" for name in names)


def _quotas(account: Account) -> dict[str, float]:
    """The account's, over AWS's defaults, by name."""
    found: dict[str, float] = {}
    client = account.client("service-quotas")
    for operation in ("list_aws_default_service_quotas", "list_service_quotas"):
        with aws_errors("quotas (servicequotas:ListServiceQuotas)"):
            for page in client.get_paginator(operation).paginate(ServiceCode="sagemaker"):
                found |= {quota["QuotaName"]: quota["Value"] for quota in page["Quotas"]}
    return found


def _image(account: Account, region: str, instance: str, uri: str | None) -> str:
    if uri is None:
        image, notice = default_image(region, instance, version("torch"))
        return image + (f" ({notice})" if notice else "")
    host, _, rest = uri.partition("/")
    if _ECR not in host:
        raise UserError(
            f"--image: {uri!r} is not in ECR, where SageMaker takes images from",
            hint=f"push it there: {_OWN_IMAGE}",
        )
    where = host.split(".")[3]
    if where != region:
        raise UserError(
            f"--image: {uri!r} is in {where}, and the job would run in {region}",
            hint=f"push it to ECR in {region}, or export AWS_REGION={where}: {_OWN_IMAGE}",
        )
    owner = host.partition(".")[0]
    if owner != account.number:
        return f"{uri}, of another account: not looked at"
    repository, _, tag = rest.partition(":")
    with aws_errors(f"image {rest} (ecr:DescribeImages)"):
        account.client("ecr").describe_images(
            repositoryName=repository, imageIds=[{"imageTag": tag or "latest"}]
        )
    return uri


def _price(entry: InstanceType | None, nodes: int) -> str:
    if entry is None or entry.price is None:
        raise UserError(
            "the catalogue has no price for it, so --max-cost can't be held",
            hint="add the instance with its price to a file for --instances",
        )
    price = entry.price
    return (
        f"{nodes} x {price.usd_per_hour:.2f} USD an hour on demand on EC2 as of {price.as_of}; "
        "SageMaker's own price is another one"
    )
