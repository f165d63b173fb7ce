"""What aws-ofi-nccl, the EFA plugin of NCCL, does by itself.

Source: aws-ofi-nccl 1.21.1, src/platform-aws.cpp.
"""

from autotune.space.nccl import NcclVersion
from autotune.space.unknown import unknown

NO_PLUGIN = "none"
NVLS_WORKS_FROM = NcclVersion(2, 18, 5)
"""With an NCCL before it the plugin switches NVLS off."""
_ORDER_USED_FROM = (1, 7, 3)
"""Since when the plugin leaves LL and LL128 on where bytes arrive in order (its notes)."""


def plugin_version(plugin: str) -> tuple[int, ...] | None:
    """The plugin's version as numbers; None if it isn't known."""
    numbers = tuple(int(part) for part in plugin.split(".") if part.isdecimal())
    return numbers or None


def why_simple(delivers_in_order: bool | None, plugin: str) -> str:
    """Why the plugin sets NCCL_PROTO=simple, or may, as a clause; empty if it doesn't.

    `delivers_in_order` is of the machine, None if that isn't known. Doubt counts as yes.
    """
    if delivers_in_order is None:
        return (
            "EFA isn't known to bring bytes in order here, and where it doesn't its plugin has to "
            "force simple"
        )
    if not delivers_in_order:
        return "EFA may bring bytes out of order here, so its plugin has to force simple"
    version = plugin_version(plugin)
    first = ".".join(map(str, _ORDER_USED_FROM))
    why = f"the EFA plugin forces simple before {first}"
    if version is None:
        return f"{why}, and its version {unknown('plugin', first)}"
    return f"{why}, and this is {plugin}" if version < _ORDER_USED_FROM else ""
