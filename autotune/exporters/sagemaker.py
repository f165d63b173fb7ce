"""`--to sagemaker`: a Python module with a SageMaker ModelTrainer."""

from collections.abc import Iterator

from autotune.errors import FieldError
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.python_text import assignment
from autotune.exporters.variables import all_variables, heading, own_variables_comment
from autotune.model import BestConfiguration
from autotune.space.instances import load_instances

_MOST = 100
_LONGEST = 512
"""Entries of a training job's Environment, and characters of a name or a value. Source: SageMaker
API reference, CreateTrainingJob."""


class SagemakerExporter(Exporter):
    """For the SageMaker Python SDK 3: `from FILE import model_trainer`."""

    name = "sagemaker"
    help = "a Python module with a ModelTrainer of SageMaker's SDK 3"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        instance = best.target.instance
        if instance not in load_instances([]):
            raise FieldError(
                "for.instance", instance, "can't be exported --to sagemaker: it is no EC2 instance"
            )
        variables = all_variables(best)
        _check(variables)
        usage = "Use it: from FILE import model_trainer, then model_trainer(IMAGE, FOLDER, SCRIPT)"
        lines = [
            *heading(best, f"{usage}.train()"), *_imports(), *own_variables_comment(),
            *assignment("environment", variables), *_trainer(best),
        ]  # fmt: skip
        return "".join(f"{line}\n" for line in lines)


def _check(variables: dict[str, str]) -> None:
    if len(variables) > _MOST:
        raise FieldError(
            "settings.environment", len(variables), f"is more than SageMaker's {_MOST} variables"
        )
    for name, value in variables.items():
        if max(len(name), len(value)) > _LONGEST:
            rule = f"is longer than SageMaker's {_LONGEST} characters"
            raise FieldError(f"settings.environment.{name}", value, rule)


def _imports() -> Iterator[str]:
    yield "from sagemaker.train import ModelTrainer"
    yield "from sagemaker.train.configs import Compute, SourceCode"
    yield "from sagemaker.train.distributed import Torchrun"
    yield ""


def _trainer(best: BestConfiguration) -> Iterator[str]:
    target = best.target
    yield ""
    yield ""
    yield "def model_trainer(training_image, source_dir, entry_script, **options):"
    yield '    """A trainer for the instances that the configuration was measured on."""'
    yield "    return ModelTrainer("
    yield "        training_image=training_image,"
    yield "        source_code=SourceCode(source_dir=source_dir, entry_script=entry_script),"
    yield "        compute=Compute("
    yield f"            instance_type={'ml.' + target.instance!a}, "\
        f"instance_count={target.nodes}"  # fmt: skip
    yield "        ),"
    yield f"        distributed=Torchrun(process_count_per_node={target.ranks_per_node}),"
    yield "        environment=environment,"
    yield "        **options,"
    yield "    )"
