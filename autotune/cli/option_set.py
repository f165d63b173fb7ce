"""A command's options as one object, so that what they come to can be worked out in parts."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from autotune.errors import ABSENT


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """Its fields are the options: annotated as the parameters of a command of typer would be."""

    def given(self, *names: str) -> dict[str, Any]:
        """What these fields hold, by the names that a person types."""
        hints = get_type_hints(type(self), include_extras=True)
        return {_typed(name, hints[name]): getattr(self, name) for name in names}


_Options = TypeVar("_Options", bound=OptionSet)


def takes(
    options: type[_Options],
) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Makes a command for typer, with these options, of a function of one object."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]

    def decorate(function: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(options(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        # What typer looks at.
        vars(command)["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = dict(hints)
        return command

    return decorate


def quotable(value: object) -> object:
    """What an error quotes of an option's value: nothing of a flag, which has none."""
    return ABSENT if value is True else str(value)


def _typed(name: str, hint: Any) -> str:
    """What is typed for it: the option's name, or an argument's in capitals."""
    told = get_args(hint)[1] if get_origin(hint) is Annotated else None
    if isinstance(told, ArgumentInfo):
        return name.upper()
    if isinstance(told, OptionInfo) and isinstance(told.default, str):
        return told.default
    raise TypeError(f"{name} is neither an option with a name of its own nor an argument")
