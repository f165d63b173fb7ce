"""autotune finds the fastest steady configuration for distributed PyTorch training on a machine.

Importing it is cheap: nothing beyond the standard library is loaded until it is needed.
"""

__version__ = "0.1.0"
