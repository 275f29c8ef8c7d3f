"""The command tree."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidelog._version import __version__
from tidelog.cli.commands import (
    audit,
    broker,
    broker_actions,
    consume,
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


app.command("up", epilog=up.EXAMPLES)(up.up)
app.command("down")(down.down)
app.command("status", epilog=status.EXAMPLES)(status.status)
app.command("kill")(broker_actions.kill)
app.command("pause")(broker_actions.pause)
app.command("resume")(broker_actions.resume)
app.command("restart")(broker_actions.restart)
app.command("broker", epilog=broker.EXAMPLES)(broker.broker)
app.command("keeper")(keeper.keeper)
app.command("dump", epilog=dump.EXAMPLES)(dump.dump)
app.add_typer(topics.app, name="topics")
app.command("produce", epilog=produce.EXAMPLES)(produce.produce)
app.command("consume", epilog=consume.EXAMPLES)(consume.consume)
app.add_typer(groups.app, name="groups")
app.add_typer(scenario.app, name="scenario")
app.command("explore", epilog=explore.EXAMPLES)(explore.explore)
app.command("replay")(replay.replay)
app.command("lab", epilog=lab.EXAMPLES)(lab.lab)
app.command("trial", epilog=trial.EXAMPLES)(trial.trial)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.add_typer(evidence.app, name="evidence")


def command() -> Any:
    """The command tree, ready to run."""
    return typer.main.get_command(app)
