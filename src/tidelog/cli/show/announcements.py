"""What ``tidelog up`` says besides the lines of its brokers: that the cluster is ready, which broker died,
and what other commands did to one."""

from __future__ import annotations

import json
import sys

from tidelog.cli.show import palette
from tidelog.cli.show.cluster_log import NORMAL, ClusterLog
from tidelog.cli.show.output import console, write_text
from tidelog.cluster.aio import Supervisor
from tidelog.cluster.broker_process import BrokerProcess, exit_summary
from tidelog.cluster.directory import latest_dir
from tidelog.cluster.remote import Action
from tidelog.narrate.numbers import counted

_LAST_LINES = 5


class Announcements:
    def __init__(self, log: ClusterLog, cluster: Supervisor, *, as_json: bool) -> None:
        self._log = log
        self._cluster = cluster
        self._as_json = as_json

    def ready_line(self, seconds: float) -> str:
        status = self._cluster.status
        if self._as_json:
            return json.dumps({**status.as_json(), "ready_seconds": round(seconds, 3)})
        return (
            f"ready in {seconds:.1f} s · {counted(len(status.brokers), 'broker')}"
            f" · generation {status.generation} · bootstrap.servers={status.bootstrap_servers}"
        )

    def print_ready(self, line: str) -> None:
        if not sys.stdout.isatty() or self._as_json:
            write_text(line + "\n")
            return
        from rich.text import Text

        text = Text(line)
        text.stylize(palette.GOOD, 0, len("ready"))
        text.highlight_regex(r"bootstrap\.servers=\S+", palette.STRONG)
        console().print(text, soft_wrap=True)
        for hint in hints():
            self._log.say(hint, palette.FAINT)
        self._log.say("  Ctrl-C                                        stop it", palette.FAINT)

    def died(self, process: BrokerProcess) -> None:
        self._log.say(f"{exit_summary(process)}", palette.BAD)
        if self._log.least > NORMAL:
            for line in list(process.last_lines)[-_LAST_LINES:-1]:
                self._log.say(f"  {line}")
        others = "the other brokers keep running" if self._cluster.pids else "no broker is left"
        self._log.say(f"  {others}; to restart it: {self._command('restart', process.id)}")

    def did(self, action: Action, number: int) -> None:
        match action:
            case Action.KILL:
                words = f"was killed by tidelog kill; to restart it: {self._command('restart', number)}"
            case Action.PAUSE:
                words = f"was paused by tidelog pause; to let it go on: {self._command('resume', number)}"
            case Action.RESUME:
                words = "goes on"
            case Action.RESTART:
                words = "was restarted by tidelog restart"
        self._log.note(f"broker {number} {words}", warning=action in (Action.KILL, Action.PAUSE))

    def _command(self, name: str, number: int) -> str:
        """With the data directory only where the command would not find the cluster without it."""
        where = "" if latest_dir() == self._cluster.data_dir else f" --data-dir {self._cluster.data_dir}"
        return f"tidelog {name} {number}{where}"


def hints() -> list[str]:
    """Commands to try first."""
    return [
        "  tidelog topics create events --partitions 6   create a topic",
        "  tidelog topics describe                       show leaders and in-sync replicas",
        "  tidelog status                                show the brokers",
        "  tidelog kill 1                                kill a broker; tidelog restart 1 starts it again",
    ]
