"""What ranks say that can't meet, or lose each other: TCPStore, elastic rendezvous, Gloo."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

_PEER = "look at the log of the rank that ended first"

SIGNATURES = (
    Signature(
        name="port-taken",
        texts=(
            "The server socket has failed to listen on any local network address",
            "The server socket has failed to bind",
            "EADDRINUSE",
            "Address already in use",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="the port that the ranks meet on is taken",
        action="end the job that holds it (ss -ltnp), or take a free one: --master-port, or "
        "--rdzv-endpoint HOST:0 on one node",
        source="PyTorch 1.8 and newer",
    ),
    Signature(
        name="unknown-host",
        texts=(
            "Name or service not known",
            "Temporary failure in name resolution",
            "The IPv4 network addresses of … cannot be retrieved",
            "Unable to resolve hostname",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="a host's or an interface's name can't be resolved to an address",
        action="check MASTER_ADDR, /etc/hosts and GLOO_SOCKET_IFNAME on the node of this rank",
        source="PyTorch 1.8 and newer, glibc, Gloo",
    ),
    Signature(
        name="gloo-interface",
        texts=("Unable to find address for", "Unable to find interface for"),
        outcome=Outcome.INVALID_KNOB,
        cause="GLOO_SOCKET_IFNAME matches no network interface of the host",
        action="unset it, or give a name that `ip link` shows",
        source="Gloo",
    ),
    Signature(
        name="store-unreachable",
        texts=(
            "The client socket has timed out after",
            "The client socket has failed to connect to any network address",
            "The connection to the C10d store has failed",
            "RendezvousConnectionError",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.WAITER,
        cause="it could not reach the store that rank 0 or the first node keeps",
        action="check that the first node runs and got as far, that its address and port are right "
        "(MASTER_ADDR, --rdzv-endpoint) and open in the security group",
        source="PyTorch 1.8 and newer",
    ),
    Signature(
        name="ranks-missing",
        texts=(
            "waiting for clients … clients joined",
            "wait timeout after",
            "Socket Timeout",
            "RendezvousTimeoutError",
            "Timed out initializing process group in store based barrier",
            "DistStoreError",
        ),
        outcome=Outcome.HUNG,
        role=Role.WAITER,
        cause="other ranks did not come to the rendezvous in time",
        action="look at the logs of the ranks that are missing; all nodes have to be started with "
        "the same number of ranks, within the join timeout (600 s)",
        source="PyTorch 1.8 and newer",
    ),
    Signature(
        name="rendezvous-closed",
        texts=("RendezvousClosedError", "RendezvousGracefulExitError"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.VICTIM,
        cause="the rendezvous was closed: another node has ended the job",
        action="look at the log of the node that ended first",
        source="PyTorch 1.9 and newer",
    ),
    Signature(
        name="gloo-timeout",
        texts=(
            "Connect timeout [",
            "Gloo connectFullMesh failed",
            "Timed out waiting … for recv operation to complete",
            "Timed out waiting … for send operation to complete",
            "Application timeout caused pair closure",
        ),
        outcome=Outcome.HUNG,
        role=Role.WAITER,
        cause="it waited in vain for other ranks over Gloo",
        action="look at the logs of the other ranks; check GLOO_SOCKET_IFNAME and that the nodes "
        "reach each other on all ports",
        source="Gloo, as in PyTorch 1.8 and newer",
    ),
    Signature(
        name="peer-gone",
        texts=(
            "Connection closed by peer",
            "Connection reset by peer",
            "Broken pipe",
            "BrokenPipeError",
            "ConnectionResetError",
            "ConnectionRefusedError",
            "recvValue failed",
            "recvValueWithTimeout failed",
            "failed to recv, got 0 bytes",
            "sendBytes failed",
            "Read error [",
            "Write error [",
            "DistNetworkError",
            "Connection refused",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.VICTIM,
        cause="its connection to another rank, or to the store, was closed",
        action=_PEER,
        source="Gloo; PyTorch's TCPStore 1.8 and newer; Python",
    ),
)
