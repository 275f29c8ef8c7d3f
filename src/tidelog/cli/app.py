"""The command tree.

A command is imported when it runs: `tidelog --help` needs its summary only, and most of the time that a short
command takes is spent on imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from tidelog._version import __version__
from tidelog.cli.help import Command, Group

EXAMPLES = """\b
Examples:
  tidelog up                            start a cluster on this machine
  tidelog scenario list                 list the known failures
  tidelog scenario run hw-loss -g hw    watch an acknowledged record get lost
  tidelog scenario compare hw-loss      play the same faults under newer rules
  tidelog explore -g hw --seed 1        search for more failures
  tidelog lab                           open the interactive page

\b
Exit code: 0 every promise held, 1 a promise was broken, 2 wrong usage.
"""

CLUSTER = "A cluster on this machine"
CLIENT = "Topics, records and groups of any Kafka cluster"
LAB = "Failures, played in the lab"
TRIALS = "Failures of real processes, audited"
PARTS = "Single processes, and their files"
MACHINE = "This machine and your shell"


class Row(NamedTuple):
    panel: str
    name: str
    summary: str
    """The first line of its help, which a test compares."""
    module: str = ""
    """Of `tidelog.cli.commands`; the name of the command if it is empty."""


ROWS = (
    Row(CLUSTER, "up", "Run a cluster on this machine until Ctrl-C."),
    Row(CLUSTER, "down", "Stop a cluster and all its brokers."),
    Row(CLUSTER, "status", "Show the brokers of a running cluster and the state of its topics."),
    Row(CLUSTER, "kill", "Kill brokers, as kill -9 does.", "broker_actions"),
    Row(CLUSTER, "pause", "Pause brokers, as a long garbage collection does.", "broker_actions"),
    Row(CLUSTER, "resume", "Let paused brokers go on.", "broker_actions"),
    Row(
        CLUSTER, "restart", "Start brokers that are down; stop and start brokers that run.", "broker_actions"
    ),
    Row(CLIENT, "topics", "Manage topics of a running tidelog or Apache Kafka cluster."),
    Row(CLIENT, "produce", "Write records to a topic."),
    Row(CLIENT, "consume", "Print the records of a topic."),
    Row(CLIENT, "groups", "Consumer groups: list, describe (lag), reset, delete."),
    Row(LAB, "lab", "Open scenarios on a web page, to step through and change."),
    Row(LAB, "scenario", "Known failures by name: list, show, run, compare."),
    Row(LAB, "explore", "Search for a schedule that breaks an invariant, and shrink it."),
    Row(LAB, "replay", "Play a scenario file and print its transcript."),
    Row(LAB, "sweep", "Simulate many failures under many settings; draw an atlas."),
    Row(TRIALS, "trial", "Run load and faults on a cluster, then audit every record."),
    Row(TRIALS, "audit", "Audit the evidence of a trial, or a table against its topic."),
    Row(TRIALS, "evidence", "Evidence of trials and of Kafka clusters: show, recover, import."),
    Row(PARTS, "broker", "Run one broker until Ctrl-C."),
    Row(PARTS, "keeper", "Run the embedded keeper without brokers, until Ctrl-C."),
    Row(PARTS, "dump", "Print and verify log files of tidelog or Apache Kafka."),
    Row(MACHINE, "doctor", "Check this machine: Java, Spark, ports, rights, disk, browser."),
    Row(MACHINE, "completion", "Print the script that completes tidelog in bash, zsh or fish."),
)


class Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._rows = {row.name: row for row in ROWS}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(self._rows[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows


def _make(row: Row) -> Any:
    """A module has the command as a function of its name, or a group of commands as `app`."""
    module = import_module(f"tidelog.cli.commands.{row.module or row.name}")
    made: Any
    if (group := getattr(module, "app", None)) is not None:
        made = typer.main.get_group(group)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        epilog = getattr(module, "EXAMPLES", None)
        alone.command(row.name, epilog=epilog, cls=Command)(getattr(module, row.name))
        made = typer.main.get_command(alone)
    made.name = row.name
    return made


class Root(Group):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()  # type: ignore[assignment]  # a mapping is enough: nothing is added

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def summaries(self, ctx: Any) -> list[tuple[str, str, str]]:
        return [(row.panel, row.name, row.summary) for row in ROWS]


app = typer.Typer(
    help="Can an acknowledged record be lost? tidelog runs the failure and shows you.",
    epilog=EXAMPLES,
    add_completion=False,
    rich_markup_mode=None,
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        typer.echo(f"tidelog {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def command() -> Any:
    """The command tree, ready to run."""
    return typer.main.get_command(app)
