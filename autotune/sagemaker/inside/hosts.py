"""The hosts of a training job, as SageMaker tells each of them: pure functions over its texts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import ABSENT, FieldError, UserError

_NAMES = "SM_HOSTS"
_CURRENT = "SM_CURRENT_HOST"
_INTERFACE = "SM_NETWORK_INTERFACE_NAME"


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """All of a job, and which of them this is."""

    names: tuple[str, ...]
    """In SageMaker's order, which is the same on every host."""
    current: str
    interface: str = ""
    """The network interface that the hosts see each other by; empty if it isn't told."""

    def __post_init__(self) -> None:
        if not self.names:
            raise FieldError("hosts", [], "names no host")
        if len(set(self.names)) < len(self.names):
            raise FieldError("hosts", list(self.names), "names a host twice")
        if self.current not in self.names:
            raise FieldError(
                "current_host", self.current, "is not among the hosts", alternatives=self.names
            )

    @property
    def head(self) -> str:
        """The host that the study's controller runs on."""
        return self.names[0]

    @property
    def is_head(self) -> bool:
        return self.current == self.head

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What Gloo and NCCL have to be told about the network, unless it is set."""
        if not self.interface or len(self.names) == 1:
            return {}
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        return {name: self.interface for name in names if name not in environ}


def read_hosts(text: str | None, environ: Mapping[str, str], place: str) -> Hosts:
    """The hosts in resourceconfig.json, whose content is `text` and whose path is `place`.

    Without the file, what the SageMaker training toolkit tells in variables. Raises UserError that
    names the file or variable, and the field.
    """
    if text is None:
        return _from_variables(environ, place)
    data = _json(text, place)
    if not isinstance(data, dict):
        raise FieldError(place, data, "has to be a mapping of fields")
    try:
        return Hosts(
            names=_names(data.get("hosts", ABSENT), "hosts"),
            current=_text(data.get("current_host", ABSENT), "current_host"),
            interface=_text(data.get("network_interface_name") or "", "network_interface_name"),
        )
    except FieldError as error:
        raise error.within(place) from None


def _from_variables(environ: Mapping[str, str], place: str) -> Hosts:
    if _NAMES not in environ:
        raise UserError(
            f"{place} is not there, and {_NAMES} is not set: this is no SageMaker training job",
            hint="to tune on this machine: autotune run --instance local",
        )
    return Hosts(
        names=_names(_json(environ[_NAMES], _NAMES), _NAMES),
        current=_text(environ.get(_CURRENT, ABSENT), _CURRENT),
        interface=environ.get(_INTERFACE, ""),
    )


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FieldError(place, text, "is not JSON") from None


def _names(data: object, field: str) -> tuple[str, ...]:
    if not isinstance(data, list):
        raise FieldError(field, data, "has to be a list of names")
    return tuple(_text(name, f"{field}[{number}]") for number, name in enumerate(data))


def _text(data: object, field: str) -> str:
    if not isinstance(data, str):
        raise FieldError(field, data, "has to be text")
    return data
