"""`--to kubernetes` and `--to kubernetes-ray`: manifests of a PyTorchJob and a RayJob."""

import re
from collections.abc import Iterator
from typing import Any

from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.ray import ray_variables
from autotune.exporters.variables import all_variables, heading, own_variables_comment
from autotune.exporters.yaml_text import Quoted, dump
from autotune.model import BestConfiguration, DeviceKind

_IMAGE = "IMAGE"
"""To be replaced by the reader's own."""


class PyTorchJobExporter(Exporter):
    """kubeflow.org/v1, of the Kubeflow training operator: one pod a node, torchrun in each."""

    name = "kubernetes"
    help = "a manifest of a PyTorchJob, of the Kubeflow training operator"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        replicas = {"Master": 1, "Worker": best.target.nodes - 1}
        document = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": _name(best)},
            "spec": {
                "nprocPerNode": Quoted(best.target.ranks_per_node),
                "pytorchReplicaSpecs": {
                    role: {
                        "replicas": count,
                        "restartPolicy": "Never",
                        "template": {"spec": {"containers": [_container(best, "pytorch")]}},
                    }
                    for role, count in replicas.items()
                    if count
                },
            },
        }
        return _text(best, document, "torchrun is started in each pod, by the operator's PET_*.")


class RayJobExporter(Exporter):
    """ray.io/v1, of KubeRay: a head without GPUs, and one worker a node."""

    name = "kubernetes-ray"
    help = "a manifest of a RayJob, of KubeRay"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        worker = {
            "groupName": "nodes",
            "replicas": best.target.nodes,
            "minReplicas": best.target.nodes,
            "maxReplicas": best.target.nodes,
            "rayStartParams": {},
            "template": {"spec": {"containers": [_container(best, "ray-worker")]}},
        }
        head = {"name": "ray-head", "image": _IMAGE}
        quoted = {name: Quoted(value) for name, value in ray_variables(best).items()}
        document = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": _name(best)},
            "spec": {
                "entrypoint": "python train.py",
                "shutdownAfterJobFinishes": True,
                "runtimeEnvYAML": dump({"env_vars": quoted}),
                "rayClusterSpec": {
                    "headGroupSpec": {
                        "rayStartParams": {"num-gpus": Quoted(0)},
                        "template": {"spec": {"containers": [head]}},
                    },
                    "workerGroupSpecs": [worker],
                },
            },
        }
        return _text(best, document, f"The trainer starts {best.target.ranks} workers.")


def _container(best: BestConfiguration, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": _IMAGE}
    if name == "pytorch":
        container["command"] = ["torchrun", "train.py"]
        container["env"] = [
            {"name": key, "value": _literal(value)} for key, value in all_variables(best).items()
        ]
    if best.evidence.device is DeviceKind.CUDA:
        container["resources"] = {"limits": {"nvidia.com/gpu": best.target.ranks_per_node}}
    return container


def _literal(value: str) -> Quoted:
    """Kubernetes puts a variable in the place of $(NAME), and a $ in that of $$."""
    return Quoted(value.replace("$", "$$"))


def _name(best: BestConfiguration) -> str:
    """A DNS label: at most 63 of a-z, 0-9 and -, a letter first."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{best.target.workload}-{best.run_id}".lower())
    return f"a-{plain}"[:63].strip("-")


def _text(best: BestConfiguration, document: dict[str, Any], *usage: str) -> str:
    return "".join(f"{line}\n" for line in _head(best, *usage)) + dump(document)


def _head(best: BestConfiguration, *usage: str) -> Iterator[str]:
    yield from heading(best, *usage)
    yield "# Replace IMAGE and train.py by yours. NCCL needs /dev/shm: mount a memory volume there."
    yield from own_variables_comment()
