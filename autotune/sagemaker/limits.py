"""Holds a request to the API's own limits before it is sent.

botocore checks names, types and least lengths; the service model that it carries also says how
long texts and lists may be, their patterns and the values there are. It is read here, not copied.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

from autotune.errors import FieldError, UserError

_MANY = 12
"""Values of an enum that are listed whole."""


def check_request(document: Mapping[str, Any], operation: str = "CreateTrainingJob") -> None:
    """Raises FieldError for the first value that the API would refuse."""
    shape = _input_shape(operation)
    report = ParamValidator().validate(document, shape)
    _check(document, shape, "")
    if report.has_errors():
        raise UserError(f"{operation}: {report.generate_report()}")


def training_instances() -> list[str]:
    """The instance types that training jobs may have, without ml."""
    return [name.removeprefix("ml.") for name in _service().shape_for("TrainingInstanceType").enum]


@cache
def _service() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"), "sagemaker")


def _input_shape(operation: str) -> Shape:
    return _service().operation_model(operation).input_shape


def _check(value: Any, shape: Shape, path: str) -> None:
    _check_size(value, shape, path)
    if shape.type_name == "structure":
        for name, item in value.items():
            if name in shape.members:
                _check(item, shape.members[name], f"{path}.{name}".lstrip("."))
    elif shape.type_name == "map":
        for name, item in value.items():
            _check(name, shape.key, f"{path}.{name}")
            _check(item, shape.value, f"{path}.{name}")
    elif shape.type_name == "list":
        for number, item in enumerate(value):
            _check(item, shape.member, f"{path}[{number}]")
    elif shape.type_name == "string":
        _check_text(value, shape, path)


def _check_size(value: Any, shape: Shape, path: str) -> None:
    units = {"string": "characters", "map": "entries", "list": "entries"}
    unit = units.get(shape.type_name, "")
    size = len(value) if unit else value
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    shown = size if shape.type_name in ("map", "list") else value
    if most is not None and size > most:
        raise FieldError(path, shown, f"is more than SageMaker's {most} {unit}".rstrip())
    if least is not None and size < least:
        raise FieldError(path, shown, f"is less than SageMaker's {least} {unit}".rstrip())


def _check_text(value: str, shape: Shape, path: str) -> None:
    if shape.enum and value not in shape.enum:
        known = shape.enum if len(shape.enum) <= _MANY else _kin(value, shape.enum)
        raise FieldError(path, value, "is not known to SageMaker", alternatives=known)
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not _matches(pattern, value):
        raise FieldError(path, value, f"has to match SageMaker's {pattern}")


def _kin(value: str, names: list[str]) -> list[str]:
    """Those that begin as `value` does up to its first digit's family, as ml.p4."""
    family = value.split(".")[1][:1] if value.count(".") else value[:1]
    return [name for name in names if name.split(".")[1:2] and name.split(".")[1][:1] == family]


def _matches(pattern: str, value: str) -> bool:
    # Unicode's classes aren't in Python's language; letters and digits come to nearly the same.
    for known, ours in {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s"}.items():
        pattern = pattern.replace(known, ours)
    return re.fullmatch(pattern, value) is not None
