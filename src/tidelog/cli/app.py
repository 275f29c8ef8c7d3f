"""The command tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from tidelog._version import __version__
from tidelog.cli.commands import (
    audit,
    broker,
    broker_actions,
    completion,
    consume,
    doctor,
    down,
    dump,
    evidence,
    explore,
    groups,
    keeper,
    lab,
    produce,
    replay,
    scenario,
    status,
    sweep,
    topics,
    trial,
    up,
)
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

app = typer.Typer(
    help="Can an acknowledged record be lost? tidelog runs the failure and shows you.",
    epilog=EXAMPLES,
    add_completion=False,
    rich_markup_mode=None,
    cls=Group,
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


CLUSTER = "A cluster on this machine"
CLIENT = "Topics, records and groups of any Kafka cluster"
LAB = "Failures, played in the lab"
TRIALS = "Failures of real processes, audited"
PARTS = "Single processes, and their files"
MACHINE = "This machine and your shell"


def _add(panel: str, name: str, function: Callable[..., Any], epilog: str | None = None) -> None:
    app.command(name, epilog=epilog, rich_help_panel=panel, cls=Command)(function)


_add(CLUSTER, "up", up.up, up.EXAMPLES)
_add(CLUSTER, "down", down.down)
_add(CLUSTER, "status", status.status, status.EXAMPLES)
_add(CLUSTER, "kill", broker_actions.kill)
_add(CLUSTER, "pause", broker_actions.pause)
_add(CLUSTER, "resume", broker_actions.resume)
_add(CLUSTER, "restart", broker_actions.restart)
app.add_typer(topics.app, name="topics", rich_help_panel=CLIENT)
_add(CLIENT, "produce", produce.produce, produce.EXAMPLES)
_add(CLIENT, "consume", consume.consume, consume.EXAMPLES)
app.add_typer(groups.app, name="groups", rich_help_panel=CLIENT)
app.add_typer(scenario.app, name="scenario", rich_help_panel=LAB)
_add(LAB, "explore", explore.explore, explore.EXAMPLES)
_add(LAB, "replay", replay.replay)
_add(LAB, "lab", lab.lab, lab.EXAMPLES)
_add(LAB, "sweep", sweep.sweep, sweep.EXAMPLES)
_add(TRIALS, "trial", trial.trial, trial.EXAMPLES)
_add(TRIALS, "audit", audit.audit, audit.EXAMPLES)
app.add_typer(evidence.app, name="evidence", rich_help_panel=TRIALS)
_add(PARTS, "broker", broker.broker, broker.EXAMPLES)
_add(PARTS, "keeper", keeper.keeper)
_add(PARTS, "dump", dump.dump, dump.EXAMPLES)
_add(MACHINE, "doctor", doctor.doctor)
_add(MACHINE, "completion", completion.completion, completion.EXAMPLES)


def command() -> Any:
    """The command tree, ready to run."""
    return typer.main.get_command(app)
