"""What libfabric and the AWS plugin for NCCL (aws-ofi-nccl 1.0 to 1.21) say."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

SIGNATURES = (
    Signature(
        name="efa-memory-registration",
        texts=(
            "NET/OFI … Unable to register memory",
            "Unable to register memory (type",
            "NET/OFI … Could not register memory",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="the EFA device could not register memory",
        action="raise the limit of locked memory (ulimit -l unlimited; docker: --ulimit "
        "memlock=-1), use huge pages less, and update the EFA installer (1.29.1 or newer)",
        source="aws-ofi-nccl 1.0 and newer",
    ),
    Signature(
        name="efa-no-provider",
        texts=(
            "NET/OFI … No eligible providers were found",
            "NET/OFI … find any optimal provider",
            "NET/OFI … initialization failed",
            "NET/OFI … Failed to initialize",
            "provider efa output empty list",
            "Failed to initialize any NET plugin",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.CLUE,
        cause="the EFA plugin found no EFA device, so NCCL has no fast network",
        action="check that `fi_info -p efa` shows devices inside the container (docker: --device "
        "/dev/infiniband/uverbs0 …), and that the instance was launched with EFA interfaces",
        source="aws-ofi-nccl 1.0 and newer; NCCL then falls back to sockets unless told not to",
    ),
    Signature(
        name="efa-endpoint",
        texts=(
            "Couldn't open AV. RC",
            "Couldn't open CQ. RC",
            "Couldn't allocate endpoint",
            "Couldn't enable endpoint",
            "Couldn't open a fabric",
            "NET/OFI Creating new endpoint for domain",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="the EFA device refused another connection: its resources are used up, or the "
        "installed versions don't fit each other",
        action="end other jobs on the node, lower the number of channels, and install one EFA "
        "installer's driver, libfabric and plugin together",
        source="aws-ofi-nccl 1.0 and newer",
    ),
    Signature(
        name="efa-completion",
        texts=(
            "NET/OFI … Request … completed with error",
            "NET/OFI … Request completed with error",
            "NET/OFI … Unable to retrieve completion queue entries",
            "Unresponsive receiver",
            "fi_cq_readerr",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.SYMPTOM,
        cause="a transfer over EFA failed: the peer is gone or can't be reached",
        action="look for a rank that ended first; if there is none, the nodes' security group has "
        "to allow all traffic from and to itself",
        source="aws-ofi-nccl 1.0 and newer, libfabric",
    ),
)
