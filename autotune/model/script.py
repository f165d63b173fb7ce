"""A training script of the user's that trials start as it is, and what its arguments stand for."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from autotune.errors import FieldError, closest
from autotune.model.candidate import KnobValue
from autotune.model.settings import TrainingSettings

SETTINGS = tuple(spec.name for spec in fields(TrainingSettings))
NAMES = (*SETTINGS, "global_batch")
"""What an argument may name in braces."""
OWN = ("strategy", "reshard_after_forward", "shard_size")
"""Settings that are read back from a script which decides on them by itself."""
DDP_BUCKET_CAP_MB = 25
"""What a script is told for the default: torch.nn.parallel.DistributedDataParallel's own."""
_FIELD = re.compile(r"\{(\{?)([A-Za-z_]\w*)(\}?)\}")


class Samples(StrEnum):
    """How the samples of an optimizer step are known."""

    COUNTED = "counted"
    """By the batches that the script's DataLoaders give out; every trial counts them again."""
    GIVEN = "given"
    """The user has said."""
    STEPS = "steps"
    """They aren't: a rank's optimizer step counts as one sample, and no candidate changes them."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """What torchrun would be given, with what is known of it."""

    program: str
    """Path of a file as the user wrote it, or the name of a module."""
    is_module: bool = False
    arguments: tuple[str, ...] = ()
    """With names of settings in braces."""
    folder: str
    """Where it is started."""
    digest: str = ""
    """SHA-256 of its file; empty if that isn't known yet."""
    samples: Samples = Samples.GIVEN
    told: tuple[str, ...] = ()
    """Settings that its arguments name, or that it asks `autotune.current()` for."""
    own: Mapping[str, KnobValue] = field(default_factory=dict)
    """Settings that it decides on by itself, as they were read back."""

    def rendered(self, settings: TrainingSettings, ranks: int) -> list[str]:
        """The arguments for a trial with these settings."""
        values: dict[str, object] = {name: getattr(settings, name) for name in SETTINGS}
        values["global_batch"] = settings.global_batch(ranks)
        if settings.bucket_cap_mb is None:
            values["bucket_cap_mb"] = DDP_BUCKET_CAP_MB
        return [_filled(argument, values) for argument in self.arguments]

    def command(self, arguments: tuple[str, ...] | list[str]) -> str:
        """What follows torchrun's own options, for a shell."""
        module = ["-m"] * self.is_module
        return shlex.join([*module, self.program, *arguments])

    @property
    def named(self) -> tuple[str, ...]:
        """The names in braces. Raises FieldError for one that was most likely meant otherwise."""
        return tuple(dict.fromkeys(n for one in self.arguments for n in _named(one)))


def _named(argument: str) -> Iterator[str]:
    for found in _FIELD.finditer(argument):
        before, name, after = found.groups()
        if before and after:
            continue
        if name in NAMES:
            yield name
        elif meant := closest(name, NAMES, cutoff=0.8):
            raise FieldError(
                "--", argument, f"names {{{name}}}, which is no setting; did you mean {{{meant}}}?",
                hint=f"if it is meant as it is: {{{{{name}}}}} is passed on as {{{name}}}",
            )  # fmt: skip


def _filled(argument: str, values: Mapping[str, object]) -> str:
    def replaced(found: re.Match[str]) -> str:
        before, name, after = found.groups()
        if before and after:
            # Doubled braces are for what would be taken for a setting, or for a mistyped one.
            return f"{{{name}}}" if closest(name, NAMES, cutoff=0.8) else found[0]
        return f"{before}{_text(values[name])}{after}" if name in values else found[0]

    return _FIELD.sub(replaced, argument)


def _text(value: object) -> str:
    """As YAML and the command line have it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)
