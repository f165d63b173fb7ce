"""Found by every Python that a fault test starts; plants that test's faults in it, if any.

AUTOTUNE_TEST_PLANT names a module of this folder's path and a function in it, `module:function`,
that is called at the start of the interpreter. For ranks, `when_imported` waits for the module that
is to be patched: nothing is imported yet, and a rank may be forked from a process that has it.
"""

import importlib
import os

if os.environ.get("AUTOTUNE_TEST_PLANT"):
    _module, _, _function = os.environ["AUTOTUNE_TEST_PLANT"].partition(":")
    getattr(importlib.import_module(_module), _function)()
