"""Devices that processes of earlier trials hold which even SIGKILL doesn't end."""

from autotune.executors.family import living_process


class Quarantine:
    """Remembers such processes. As long as one of them lives, no trial is launched.

    It may hold memory of any of the devices, all of which a trial uses.
    """

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def add(self, pids: list[int]) -> None:
        """These were killed and live."""
        for pid in pids:
            process = living_process(pid)
            if process is not None:
                self._held[pid] = process.started

    def reason(self) -> str:
        """Why no trial can be launched now, or empty."""
        living = [pid for pid, started in self._held.items() if _lives(pid, started)]
        self._held = {pid: self._held[pid] for pid in living}
        if not living:
            return ""
        pids = ", ".join(map(str, living))
        return (
            f"an earlier trial's processes that even SIGKILL doesn't end still hold its devices: "
            f"pid {pids}; find what they wait for (cat /proc/PID/stack), or restart the machine"
        )


def _lives(pid: int, started: int) -> bool:
    process = living_process(pid)
    return process is not None and process.started == started
