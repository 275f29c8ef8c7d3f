"""The processes that generate load, as the trial sees them: started, commanded, read and ended.

They are few (`workload` says how many) and each is a session of its own, so that Ctrl-C reaches only the
trial. They end by themselves when the trial is gone, however it went: their standard input ends then.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tidelog.trials.load.workload import ConsumerPlan, ProducerPlan

_KILL_SECONDS = 10.0

Role = Literal["producers", "consumers"]


class Worker:
    """One process. `status` is what it said last."""

    def __init__(
        self,
        role: Role,
        name: str,
        clients: Sequence[ProducerPlan | ConsumerPlan],
        evidence: Path,
        *,
        ends: dict[str, dict[str, int]] | None = None,
        command: Sequence[str] = (),
    ) -> None:
        """`command`: words to put before that which starts it, for it to run somewhere else."""
        self.name = name
        self.status: dict[str, Any] = {}
        self.clients = [client.name for client in clients]
        with (evidence / "logs" / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, sys.executable, "-m", f"tidelog.trials.load.{role}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        self._log = log.name
        plan = {"worker": name, "evidence": str(evidence), "clients": [asdict(client) for client in clients]}
        self._tell(plan if ends is None else plan | {"ends": ends})
        self._listening = threading.Thread(target=self._listen, name=name, daemon=True)
        self._listening.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_done(self) -> bool:
        """It has said its last word; everything it wrote is sealed."""
        return bool(self.status.get("done"))

    def failure(self) -> str | None:
        """Why it is no use any more, in one line; None while it works, or has ended in order."""
        trouble = self.status.get("trouble")
        if trouble:
            return str(trouble[0])
        code = self._process.poll()
        if code is None or self.is_done or self._listening.is_alive():
            return None
        return f"{self.name} ended with exit code {code}: {self._last_line()}"

    def stop(self) -> None:
        """Send no more, or read no more; and then end."""
        self._tell({"do": "stop"})

    def drain(self, ends: dict[str, dict[str, int]]) -> None:
        """Read up to there and end."""
        self._tell({"do": "drain", "ends": ends})

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so long."""
        deadline = time.monotonic() + seconds
        self._listening.join(max(seconds, 0.0))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(deadline - time.monotonic(), 0.05))
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, in order if it can be."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        if not self.wait(_KILL_SECONDS):
            self._process.kill()
            self.wait(_KILL_SECONDS)
        self._listening.join(_KILL_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it is gone; `failure` says why
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self.status = json.loads(line)

    def _last_line(self) -> str:
        lines = Path(self._log).read_text("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"see {self._log}")
