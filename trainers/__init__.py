"""What runs on the GPUs: torch, the standard library and autotune.model only.

`rank` is the program; a trial is one process of it for each rank. Its messages are described in
docs/trial_protocol.md. Importing this package imports nothing else: `preload` does.
"""
