"""A workload that is not built in: what is known of it before anything is launched."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from autotune.model.script import Script


@dataclass(frozen=True, kw_only=True)
class UserWorkload:
    """What building a user's workload once has shown."""

    name: str
    """As the user names it, for example `my_pkg.my_module:build`."""
    parameters: int
    """Elements of the model."""
    blocks: int
    """Modules that are sharded and checkpointed one by one; 0 if there are none."""
    block: str
    """The class of these modules; empty if there are none."""
    global_batch: int | None
    """Samples per optimizer step when the user names none."""
    module: str
    """What ranks import for it; empty for a script."""
    folder: str = ""
    """Where `module` is found; empty if it is installed."""
    file: str = ""
    """The file of `module`; empty if it is a library's."""
    digest: str = ""
    """SHA-256 of that file."""
    script: Script | None = None
    """If it is no function that builds a workload, but a script that is started."""

    def changed(self) -> str:
        """Why its trials can't be compared with new ones, as a clause; empty if they can."""
        if not self.file:
            return ""
        try:
            same = digest_of(Path(self.file)) == self.digest
        except OSError as error:
            return f"{self.file} can't be read any more: {error.strerror}"
        return "" if same else f"{self.file} has changed since the run began"


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
