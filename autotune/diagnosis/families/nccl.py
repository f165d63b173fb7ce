"""What NCCL refuses or runs out of: NCCL 2.4 to 2.32, as warnings and inside exceptions."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

SIGNATURES = (
    Signature(
        name="nccl-no-algorithm",
        texts=("no algorithm/protocol available", "no algorithm/protocol nor symKernelId"),
        outcome=Outcome.INVALID_KNOB,
        cause="NCCL_ALGO and NCCL_PROTO leave a collective without an algorithm",
        action="unset them, or name them for each function, with a list for all the others first: "
        'NCCL_ALGO="ring,tree;allreduce:tree" (NCCL 2.24 and newer)',
        source="NCCL 2.5 to 2.6 and 2.24 to 2.29 `Error : no …`; 2.30 `No …`; 2.31 `… nor …`",
    ),
    Signature(
        name="nccl-bad-selection",
        texts=(
            "Unrecognized element token",
            "Unrecognized prefix token",
            "All entries except the first must have a prefix",
        ),
        outcome=Outcome.INVALID_KNOB,
        cause="NCCL_ALGO or NCCL_PROTO has a value that this NCCL can't read",
        action="correct the name that the line quotes; algorithms are Ring, Tree, CollNetDirect, "
        "CollNetChain, NVLS, NVLSTree and PAT, protocols LL, LL128 and Simple",
        source="NCCL 2.24 and newer",
    ),
    Signature(
        name="nccl-no-interface",
        texts=(
            "no socket interface found",
            "No usable listening interface found",
            "NET/Socket : no interface found",
        ),
        outcome=Outcome.INVALID_KNOB,
        cause="NCCL_SOCKET_IFNAME matches no network interface of the host",
        action="unset it, or give the beginning of a name that `ip link` shows, such as "
        "NCCL_SOCKET_IFNAME=en; EFA devices have no interface called efa",
        source="NCCL 2.4 and newer, `Bootstrap : …`, from 2.24 `Bootstrap: …`",
    ),
    Signature(
        name="nccl-bad-address",
        texts=("Invalid NCCL_COMM_ID",),
        outcome=Outcome.INVALID_KNOB,
        cause="NCCL_COMM_ID is no address with a port",
        action="unset NCCL_COMM_ID; PyTorch hands the address out by itself",
        source="NCCL 2.4 and newer",
    ),
    Signature(
        name="nccl-plugin-refuses",
        texts=("tuner plugin can not be loaded when explicitly choosing",),
        outcome=Outcome.INVALID_KNOB,
        cause="the network plugin's tuner refuses to run beside NCCL_ALGO and NCCL_PROTO",
        action="unset NCCL_ALGO and NCCL_PROTO, or set NCCL_TUNER_PLUGIN=none",
        source="aws-ofi-nccl 1.16",
    ),
    Signature(
        name="nccl-nvls-memory",
        texts=(
            "NVLS … out of memory",
            "Cuda failure … out of memory … multicast",
            "multicast … Cuda failure … out of memory",
            "Failed to bind NVLink SHARP",
            "NVLS … alloc failure",
        ),
        outcome=Outcome.OUT_OF_MEMORY,
        cause="NCCL's buffers for NVLink SHARP (NVLS) didn't fit into the GPU's memory, or the "
        "fabric manager refused them",
        action="set NCCL_NVLS_ENABLE=0, or NCCL_NVLS_NCHANNELS lower; if it fails even so, restart "
        "nvidia-fabricmanager",
        source="NCCL 2.17 and newer",
    ),
    Signature(
        name="nccl-out-of-memory",
        texts=(
            "Failed to CUDA calloc",
            "Failed to CUDA malloc",
            "Failed to CUDA host alloc",
            "Cuda failure 2 'out of memory'",
            "Cuda failure 'out of memory'",
            "NCCL WARN … Cuda failure … out of memory",
        ),
        outcome=Outcome.OUT_OF_MEMORY,
        cause="NCCL's buffers didn't fit into the GPU's memory beside the model",
        action="lower NCCL_BUFFSIZE or the number of channels (NCCL_MAX_CTAS, before 2.17 "
        "NCCL_MAX_NCHANNELS), or leave more memory free",
        source="NCCL 2.4 and newer",
    ),
    Signature(
        name="nccl-shared-memory",
        texts=(
            "Error while creating shared memory segment",
            "Error: failed to extend /dev/shm",
            "shared memory segment … /dev/shm/nccl",
            "posix_fallocate … /dev/shm/nccl",
            "/dev/shm/nccl- … No space left on device",
            "Call to posix_fallocate failed",
            "Call to ftruncate failed",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="/dev/shm is too small or full for NCCL's segments",
        action="make it larger (docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with "
        "medium Memory at /dev/shm), and remove what dead processes left in it (/dev/shm/nccl-*)",
        source="NCCL 2.4 and newer, `Error while creating shared memory segment` (older), "
        "`failed to extend` (2.18 and newer)",
    ),
    Signature(
        name="nccl-duplicate-gpu",
        texts=("Duplicate GPU detected", "Multiple Ranks are using the same GPU"),
        outcome=Outcome.ENVIRONMENT,
        cause="two ranks use the same GPU",
        action="call torch.cuda.set_device(local_rank) before anything else, start no more ranks "
        "on a node than it has GPUs, and check CUDA_VISIBLE_DEVICES",
        source="NCCL 2.5 to 2.29 `Duplicate GPU …`; 2.30 `Multiple Ranks …`",
    ),
    Signature(
        name="nccl-version-mismatch",
        texts=("Mismatched NCCL version detected",),
        outcome=Outcome.ENVIRONMENT,
        cause="the ranks have different versions of NCCL",
        action="give all nodes the same image; compare torch.cuda.nccl.version() and LD_PRELOAD "
        "on each",
        source="NCCL 2.4 and newer",
    ),
    Signature(
        name="nccl-infiniband",
        texts=(
            "NET/IB … Got completion … with error",
            "NET/IB … Got completion … with status",
            "NET/IB … async fatal event",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.SYMPTOM,
        cause="the InfiniBand or RoCE link to a peer failed, or the peer is gone",
        action="look for a rank that ended first; if there is none, check ibstat, the cables' "
        "error counters and the route to the address in the line",
        source="NCCL 2.4 and newer",
    ),
    Signature(
        name="nccl-remote",
        texts=(
            "remote process exited or there was a network error",
            "ncclRemoteError: A call failed",
            "socketProgress: Connection closed by remote peer",
            "Connection closed by remote peer",
            "Connection closed by localRank",
            "Proxy Call to rank … failed",
            "[Proxy Service",
            "[Service thread]",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.VICTIM,
        cause="its connection to another rank was closed",
        action="look at the log of the rank that ended first",
        source="NCCL 2.9 and newer",
    ),
    Signature(
        name="nccl-connect",
        texts=(
            "Connect to … failed",
            "Call to connect returned Connection refused",
            "Call to connect returned Connection timed out",
            "Call to connect returned No route to host",
            "Call to connect … failed",
            "socketStartConnect: Connect to",
            "socketPollConnect: Connect to",
            "NCCL WARN Call to recv … failed",
            "NCCL WARN Call to send … failed",
            "NCCL WARN Call to … failed: Connection reset by peer",
            "NCCL WARN Call to … failed : Connection reset by peer",
            "NCCL WARN Call to … failed: Broken pipe",
            "NCCL WARN Call to … failed : Broken pipe",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.VICTIM,
        cause="it could not reach another rank",
        action="look at the log of the rank that ended first; if none did, check that security "
        "groups and firewalls let all ports through between the nodes, and NCCL_SOCKET_IFNAME",
        source="NCCL 2.4 and newer",
    ),
    Signature(
        name="nccl-system",
        texts=("unhandled system error", "ncclSystemError: System call"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.SYMPTOM,
        cause="a system call or a library of NCCL's failed",
        action="run with NCCL_DEBUG=WARN: the warning before this line names the call",
        source="NCCL 2.0 and newer, through PyTorch",
    ),
    Signature(
        name="nccl-cuda",
        texts=("unhandled cuda error", "ncclUnhandledCudaError: Call to CUDA function failed"),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="a CUDA call of NCCL's failed",
        action="run with NCCL_DEBUG=WARN: the warning before this line names the CUDA error",
        source="NCCL 2.0 and newer, through PyTorch",
    ),
    Signature(
        name="nccl-usage",
        texts=(
            "NCCL error … invalid usage",
            "NCCL error … invalid argument",
            "ncclInvalidUsage: This usually reflects invalid usage",
            "ncclInvalidArgument: Invalid value for an argument",
        ),
        outcome=Outcome.INVALID_KNOB,
        role=Role.SYMPTOM,
        cause="NCCL refused a setting or a call",
        action="run with NCCL_DEBUG=WARN: the warning before this line names what it refused",
        source="NCCL 2.0 and newer, through PyTorch",
    ),
    Signature(
        name="nccl-internal",
        texts=(
            "NCCL error … internal error",
            "ncclInternalError: Internal check failed",
            "internal error - please report this issue to the NCCL developers",
            "Unknown NCCL error!",
        ),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="NCCL found itself in a state that it doesn't expect",
        action="run with NCCL_DEBUG=WARN for the reason; drop NCCL settings one after the other, "
        "or try another version of NCCL",
        source="NCCL 2.0 and newer, through PyTorch",
    ),
)
