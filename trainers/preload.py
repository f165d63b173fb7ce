"""Imports everything that a rank needs, and reads its text, for a parent that forks ranks.

No CUDA call is made and no thread started: both would break the forked ranks.
"""

import importlib

MODULES = (
    "autotune.trainers.rank",
    # The first optimizer imports it, which takes a second.
    "torch._dynamo",
)


def preload(module: str = "", folder: str = "", *, script: str = "") -> None:
    """Once, before the first rank is forked; `module` is the user's own, found in `folder`.

    Of a user's `script`, what it imports of installed packages.
    """
    for name in MODULES:
        importlib.import_module(name)
    # Not imported at the top: a bare warm parent imports this module, and not torch.
    torch, text = map(importlib.import_module, ("torch", "autotune.trainers.text"))
    text.corpus(torch.device("cpu"))
    if module:
        importlib.import_module("autotune.trainers.sources").import_user_module(module, folder)
    if script:
        importlib.import_module("autotune.trainers.script.imports").import_for(script)
