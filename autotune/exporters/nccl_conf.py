"""`--to nccl-conf`: NCCL's own configuration file."""

from autotune.errors import FieldError
from autotune.exporters.asked import asked
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check, check_uses_nccl
from autotune.exporters.left_out import left_out_comment
from autotune.exporters.variables import heading
from autotune.model import BestConfiguration


class NcclConfExporter(Exporter):
    """`NAME=VALUE` lines; NCCL takes '#' for a comment only where a line begins with it.

    The file is $NCCL_CONF_FILE (NCCL 2.23 and later), else ~/.nccl.conf, and /etc/nccl.conf. What
    the environment of a process has goes before it. Source: NCCL v2.30, src/misc/param.cc.
    """

    name = "nccl-conf"
    help = "NCCL's configuration file, such as /etc/nccl.conf: its own variables alone"
    expresses = frozenset({"environment"})

    def export(self, best: BestConfiguration) -> str:
        check(best)
        lines = [f"{name}={value}" for name, value in best.environment.items() if _is_nccls(name)]
        check_uses_nccl(best, self.name)
        if not lines:
            raise FieldError(
                "settings.environment", list(best.environment), "has nothing that NCCL reads",
                hint="NCCL's defaults are the answer, so no file is needed",
            )  # fmt: skip
        usage = "NCCL reads it as $NCCL_CONF_FILE (2.23 and later), ~/.nccl.conf or /etc/nccl.conf."
        head = [*heading(best, usage), *left_out_comment(self.left_out(best))]
        return "".join(f"{line}\n" for line in (*head, *lines))

    def left_out(self, best: BestConfiguration) -> list[str]:
        others = [name for name in best.environment if not _is_nccls(name)]
        settings = [f"{name}={value}" for name, value in asked(best).items()]
        return [*settings, *(f"{name} in the environment" for name in others)]


def _is_nccls(name: str) -> bool:
    return name.startswith("NCCL_")
