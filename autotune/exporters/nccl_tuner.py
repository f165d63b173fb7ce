"""`--to nccl-tuner`: the CSV of NVIDIA's example tuner plugin."""

from collections.abc import Iterator

from autotune.errors import FieldError, UserError
from autotune.exporters.asked import asked
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check, check_uses_nccl
from autotune.exporters.left_out import left_out_comment
from autotune.exporters.variables import heading
from autotune.model import BestConfiguration
from autotune.space.nccl import Algorithm, Collective, Enabled, NcclVersion, channels_in, parse

_LARGEST = 2**62
_TOLD = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
)  # fmt: skip


class NcclTunerExporter(Exporter):
    """A row for each collective that has one algorithm and one protocol left.

    Form: collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks. Source: NCCL
    v2.30.7, plugins/tuner/example. The number of channels is always given: the plugin takes -1, and
    a collective without a row, for one channel, whatever its description says.
    """

    name = "nccl-tuner"
    help = "the CSV of NVIDIA's example tuner plugin (NCCL_TUNER_CONFIG_FILE)"
    expresses = frozenset()

    def export(self, best: BestConfiguration) -> str:
        check(best)
        check_uses_nccl(best, self.name)
        usage = (
            "NCCL_TUNER_PLUGIN names the plugin's library, NCCL_TUNER_CONFIG_FILE this file.",
            "The plugin gives a collective without a row one channel.",
        )
        head = [*heading(best, *usage), *left_out_comment(self.left_out(best))]
        return "".join(f"{line}\n" for line in (*head, *_rows(best)))

    def left_out(self, best: BestConfiguration) -> list[str]:
        others = [name for name in best.environment if name not in _TOLD]
        settings = [f"{name}={value}" for name, value in asked(best).items()]
        return [*settings, *(f"{name} in the environment" for name in others)]


def _rows(best: BestConfiguration) -> Iterator[str]:
    version = _version(best)
    channels = channels_in(version, best.environment).exact
    if channels is None:
        raise FieldError(
            "settings.environment", list(best.environment), "names no number of channels, which "
            "the plugin needs: without one it uses a single channel",
            hint="hold one with `autotune run --set nccl_channels=…`",
        )  # fmt: skip
    found = parse(version, best.environment)
    if found.error:
        raise UserError(f"settings.environment: NCCL refuses it: {found.error}")
    rows = [
        _row(collective, enabled, channels, best)
        for collective, enabled in found.collectives.items()
        if len(enabled.algorithms) == 1 and len(enabled.protocols) == 1
    ]
    if not rows:
        raise FieldError(
            "settings.environment", list(best.environment), "leaves NCCL its choice of algorithm "
            "or protocol for every collective: there is nothing for a tuner to say",
        )  # fmt: skip
    yield from rows


def _row(collective: Collective, enabled: Enabled, channels: int, best: BestConfiguration) -> str:
    (algorithm,), (protocol,) = enabled.algorithms, enabled.protocols
    name = collective.value.replace("_", "")
    return (
        f"{name},0,{_LARGEST},{_algorithm(algorithm)},{protocol.value},{channels},"
        f"{best.target.nodes},{best.target.ranks}"
    )


def _algorithm(algorithm: Algorithm) -> str:
    return algorithm.value.lower()


def _version(best: BestConfiguration) -> NcclVersion:
    text = best.versions.get("nccl", "")
    if not text:
        raise FieldError("versions.nccl", text, "has to be there: a tuner is NCCL's")
    return NcclVersion.parse(text)
