"""The ranks of one launch, and all that is theirs while they run."""

import os
from pathlib import Path

from autotune.executors.channel import Channels
from autotune.executors.family import Family
from autotune.executors.leftovers import Leftovers
from autotune.executors.rank_process import Rank, end_all, family_of, open_log
from autotune.executors.scratch import Scratch
from autotune.executors.warden import Warden
from autotune.model.protocol import Following


class Team:
    """The ranks of a trial, or of several one after the other, and all that is theirs."""

    def __init__(self, *, term_s: float, uses_gpus: bool, warden: Warden) -> None:
        """Raises OSError if there is no room for its temporary files, or no process to guard it."""
        self.channels = Channels()
        self.ranks: list[Rank] = []
        self.trials = 0
        """That it has finished."""
        self.port = 0
        """Of the ranks' rendezvous."""
        self.scratch = Scratch()
        self._term_s = term_s
        self._warden = warden
        self._leftovers = Leftovers(self.scratch, uses_gpus=uses_gpus)
        self._family: Family | None = None
        try:
            warden.guard(self.scratch.mark, self.scratch.path)
        except OSError:
            self.scratch.remove()
            raise

    @property
    def is_sound(self) -> bool:
        """Every rank runs, and no process that it may have started does any more."""
        pids = [rank.pid for rank in self.ranks if rank.exit_status() is None]
        members = family_of(self.ranks, self.scratch.mark).members(marked=True)
        return len(pids) == len(self.ranks) and set(members) == set(pids)

    def go_on(self, spec_path: Path) -> None:
        """Have the ranks run another trial, which they wait for. Raises OSError for its logs."""
        for rank in self.ranks:
            rank.log_path = spec_path.parent / f"rank-{rank.rank}.log"
            os.close(open_log(rank.log_path))
            message = Following(spec=str(spec_path), log=str(rank.log_path))
            self.channels.send(rank.rank, message)

    def end(self) -> list[int]:
        """End every process, once; returns pids of those that even KILL didn't end."""
        if self._family is not None:
            return []
        self._family = family_of(self.ranks, self.scratch.mark)
        self._leftovers.note(self._family, self.ranks)
        survivors = end_all(self.ranks, term_s=self._term_s, family=self._family)
        self.channels.close()
        return survivors

    def clean(self) -> str:
        """Remove what is left after the end; says what there was, or nothing."""
        if self._family is None:
            return ""
        left = self._leftovers.clean(self._family, self.port)
        self._warden.release()
        return left

    def close(self) -> list[int]:
        """End it and clean up, whatever of it has been done already; returns as `end` does."""
        survivors = self.end()
        self.clean()
        return survivors
