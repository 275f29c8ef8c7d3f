"""Where the brokers of a trial are forked: one process for all of them, or one on each machine.

If disks are to be slow, their syncs are decided here (`sync_gate`).
"""

from __future__ import annotations

from tidelog.cluster.forkserver import Nursery
from tidelog.cluster.sync_gate import SyncGate


class Nurseries:
    def __init__(self, *, slow_disks: bool) -> None:
        self._slow_disks = slow_disks
        self._made: dict[tuple[str, ...], tuple[Nursery, SyncGate | None]] = {}

    def open(self, command: list[str]) -> Nursery:
        """The nursery that runs behind these words. Begins to load if it is new."""
        where = tuple(command)
        if where not in self._made:
            gate = SyncGate() if self._slow_disks else None
            if gate is None:
                self._made[where] = Nursery(command), None
            else:
                nursery = Nursery([*command, *gate.command()], [gate.theirs.fileno()])
                gate.open()
                self._made[where] = nursery, gate
        return self._made[where][0]

    def gate(self, command: list[str]) -> SyncGate | None:
        """Who decides on the syncs of brokers that were started there."""
        _, gate = self._made[tuple(command)]
        return gate

    async def close(self) -> None:
        """When all brokers have ended."""
        for nursery, gate in self._made.values():
            await nursery.close()
            if gate is not None:
                gate.close()
        self._made.clear()
