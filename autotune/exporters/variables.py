"""The variables that a shell export sets, and the comment lines that explain them."""

from collections.abc import Iterator

from autotune.exporters.script_text import script_comment
from autotune.exporters.text import comment, summary
from autotune.model import BestConfiguration, encode
from autotune.model.variables import OWN_PREFIX


def own_variables(best: BestConfiguration) -> dict[str, str]:
    """The parallel settings and the batch as AUTOTUNE_* variables, for the user's own script.

    None for what does nothing under the strategy, nor for what is left to PyTorch.
    """
    return {
        own_name(name): str(value).lower()
        for name, value in encode(best.settings).items()
        if value is not None and name not in best.settings.foreign
    }


def all_variables(best: BestConfiguration) -> dict[str, str]:
    """The environment, then the AUTOTUNE_* variables."""
    return {**best.environment, **own_variables(best)}


def unused_variables(best: BestConfiguration) -> list[str]:
    """Names of the AUTOTUNE_* variables that don't apply here and may be left from another file."""
    used = own_variables(best)
    return [name for name in map(own_name, encode(best.settings)) if name not in used]


def own_name(setting: str) -> str:
    """The variable that a setting is exported as."""
    return f"{OWN_PREFIX}{setting.upper()}"


def heading(best: BestConfiguration, *usage: str) -> Iterator[str]:
    """Comment lines that say what the export is, where it is from, and how to use it."""
    yield comment(summary(best))
    yield comment(f"From run {best.run_id}, {best.created_at.isoformat()}.")
    yield from (comment(line) for line in usage)
    yield from script_comment(best)


def own_variables_comment() -> Iterator[str]:
    """Comment lines that say what the AUTOTUNE_* variables don't do."""
    yield comment("Neither NCCL nor PyTorch nor torchrun reads the variables below: your training")
    yield comment("script applies these settings, or it doesn't have the speed that was measured.")
