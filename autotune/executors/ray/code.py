"""The user's code as it lies on a node: in the driver's folder if the node sees that, else sent."""

from dataclasses import replace
from pathlib import Path

from autotune.model import Script, TrialSpec, UserWorkload


def as_here(workload: UserWorkload) -> UserWorkload:
    """With the paths of this node, where Ray has unpacked the driver's folder as the current one.

    Where all nodes see the driver's folder under its own path, that is taken.
    """
    if not workload.folder or (Path(workload.folder).is_dir() and not workload.changed()):
        return workload
    there, here = workload.folder, str(Path.cwd())
    script = workload.script and replace(
        workload.script, folder=here, program=_moved(workload.script.program, there, here)
    )
    return replace(workload, folder=here, file=_moved(workload.file, there, here), script=script)


def spec_here(spec: TrialSpec, here: UserWorkload) -> TrialSpec:
    """`spec`, which has the driver's paths, with those of this node."""
    script: Script | None = spec.script
    if script is not None and here.script is not None:
        script = replace(script, folder=here.script.folder, program=here.script.program)
    folder = spec.workload_folder and here.folder
    return replace(spec, workload_folder=folder, script=script)


def fault(here: UserWorkload) -> str:
    """Why its trials can't run on this node, as a clause; empty if they can."""
    if here.file and not Path(here.file).is_file():
        return (
            f"{here.file} isn't there: of the driver's files, nodes have those in the folder that "
            "autotune was run in, without what .gitignore names"
        )
    return here.changed()


def _moved(path: str, there: str, here: str) -> str:
    """`path`, in `here` if it is in `there`."""
    if Path(path).is_relative_to(there) and path:
        return str(Path(here) / Path(path).relative_to(there))
    return path
