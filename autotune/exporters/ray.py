"""`--to ray`: a Python module with Ray's runtime_env and Ray Train's ScalingConfig."""

from collections.abc import Iterator

from autotune.errors import FieldError
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.python_text import assignment
from autotune.exporters.variables import all_variables, heading, own_variables_comment
from autotune.model import BestConfiguration, DeviceKind


class RayExporter(Exporter):
    """For `ray.init(runtime_env=…)` and `TorchTrainer(…, scaling_config=…)`."""

    name = "ray"
    help = "a Python module with Ray's runtime_env and Ray Train's ScalingConfig"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        usage = (
            "Use it: from FILE import runtime_env, scaling_config, then",
            "ray.init(runtime_env=runtime_env); TorchTrainer(..., scaling_config=scaling_config)",
        )
        lines = [
            *heading(best, *usage), "from ray.train import ScalingConfig", "",
            *own_variables_comment(), *assignment("env_vars", ray_variables(best)),
            'runtime_env = {"env_vars": env_vars}', *_scaling(best),
        ]  # fmt: skip
        return "".join(f"{line}\n" for line in lines)


def ray_variables(best: BestConfiguration) -> dict[str, str]:
    """All variables. Raises FieldError for a $: Ray puts other variables' values in its place.

    Source: Ray 2.60, update_envs in _private/utils.py; there is no way to write a plain one.
    """
    for name, value in best.environment.items():
        if "$" in value:
            rule = "can't be given to Ray, which replaces $NAME in it"
            raise FieldError(f"settings.environment.{name}", value, rule)
    return all_variables(best)


def _scaling(best: BestConfiguration) -> Iterator[str]:
    target = best.target
    yield "scaling_config = ScalingConfig("
    yield f"    num_workers={target.ranks},"
    yield f"    use_gpu={best.evidence.device is DeviceKind.CUDA},"
    if target.nodes > 1:
        # Nodes are filled one after the other, as many ranks on each as were measured.
        yield '    placement_strategy="PACK",'
    yield ")"
