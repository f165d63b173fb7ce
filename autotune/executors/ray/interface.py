"""Which network interface of this node has an address."""

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
"""From linux/sockios.h."""


def interface_of(address: str) -> str:
    """Its name, such as `eth0`; empty if no interface has this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""
