"""A rank that meets the others, adds one number up with them, and is done: `empty_rank.py SPEC`."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from autotune.model import Measurement, TrialSpec, Window, decode
from autotune.model.protocol import Finished, Started
from autotune.trainers.channel import Channel
from autotune.trainers.process import leave
from autotune.trainers.rank import prepare_process
from autotune.trainers.rendezvous import Place, join


def main() -> None:
    """Report a measurement of nothing, so that the trial counts as completed."""
    prepare_process()
    channel = Channel.from_environment()
    spec = decode(TrialSpec, json.loads(Path(sys.argv[1]).read_bytes()))
    place = Place.from_environment()
    join(spec, place, torch.device("cpu"), {})
    channel.send(Started(rank=place.rank, pid=os.getpid(), host="localhost"))
    dist.all_reduce(torch.ones(1))
    if place.rank == 0:
        channel.send_last(Finished(measurement=nothing(place.ranks)))
    channel.close()
    leave(0)


def nothing(ranks: int) -> Measurement:
    """The smallest measurement that is valid."""
    return Measurement(
        windows=(Window(index=0, steps=1, samples=1, seconds=1e-9),),
        warmup_steps=0,
        settled=True,
        communication_share=None,
        build_s=0.0,
        warmup_s=0.0,
        losses=(0.0,),
        gradient_norms=(0.0,),
        peak_memory_bytes=(1,) * ranks,
        allocator_retries=0,
        parameters=0,
        effective={},
        versions={},
    )


if __name__ == "__main__":
    main()
