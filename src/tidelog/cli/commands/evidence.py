"""``tidelog evidence``: summarise a trial, recover a killed one, import a Jepsen history or log folders of
Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.commands.evidence_kafka import import_kafka
from tidelog.cli.errors import ExitCode
from tidelog.cli.help import Command, Group
from tidelog.cli.options import JsonOption, flag
from tidelog.cli.paths import absolute
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal, reason
from tidelog.narrate.numbers import counted

app = typer.Typer(
    help="Evidence of trials and of Kafka clusters: show, recover, import.",
    no_args_is_help=False,
    rich_markup_mode=None,
    cls=Group,
)

app.command("import-kafka")(import_kafka)

Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", callback=absolute, help="Evidence folder of a trial.", show_default=False),
]
History = Annotated[
    Path,
    typer.Argument(
        metavar="HISTORY",
        callback=absolute,
        help="history.edn of Jepsen's Kafka workload, or the same as JSON lines.",
        show_default=False,
    ),
]
NewFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", callback=absolute, help="Output directory: new or empty.", show_default=False
    ),
]
NoIdempotence = Annotated[
    bool,
    flag("Producers were not idempotent: report duplicates as notices.", "--no-idempotence"),
]


@app.command("show", cls=Command)
def show(folder: Folder, as_json: JsonOption = False) -> int:
    """Summarise a trial. Exit code: 0 no acknowledged record is lost, 1 at least one is lost.

    Example: tidelog evidence show trial-20260101-120000
    """
    from tidelog.cli.show.trial import check_quickly
    from tidelog.evidence.folder import RUNNING, EvidenceFolder

    claimed = EvidenceFolder.claim(folder)
    try:
        if not claimed.manifest.keeps_ledger:
            raise Refusal(f"{folder} holds log folders, without sends: use tidelog audit {folder}")
        if claimed.manifest.state == RUNNING:
            raise Refusal(f"the trial in {folder} was killed: first tidelog evidence recover {folder}")
        return check_quickly(claimed, claimed.manifest.settings.get("notes", []), as_json=as_json)
    finally:
        claimed.release()


@app.command("recover", cls=Command)
def recover(folder: Folder) -> int:
    """Convert the journals of a killed trial into tables.

    Also stops the brokers that the trial left running.

    Example: tidelog evidence recover trial-20260101-120000
    """
    from tidelog.trials.collection import recover as recover_folder

    claimed, done = recover_folder(folder)
    claimed.release()
    if done.processes_ended:
        write_text(f"stopped {counted(done.processes_ended, 'broker')} that the trial left running\n")
    write_text(f"{counted(done.sealed.journals, 'journal')} converted into the tables of {folder}\n")
    for name, why in done.sealed.trouble.items():
        write_text(f"not converted: {name}: {why}\n")
    return ExitCode.REFUSED if done.sealed.trouble else ExitCode.HELD


@app.command("import-jepsen", cls=Command)
def import_jepsen(
    history: History, folder: NewFolder, no_idempotence: NoIdempotence = False, as_json: JsonOption = False
) -> int:
    """Import a history of Jepsen's Kafka workload.

    Writes an evidence folder for tidelog audit.

    Example: tidelog evidence import-jepsen store/latest/history.edn from-jepsen
    """
    from dataclasses import asdict

    from tidelog.cli.show.output import write_json
    from tidelog.evidence.importers.jepsen.history import import_history

    try:
        done = import_history(history, folder, idempotent=not no_idempotence)
    except OSError as error:
        raise Refusal(f"{folder}: {reason(error)}") from None
    if as_json:
        write_json({"evidence": str(folder), **asdict(done)})
        return ExitCode.HELD
    write_text(
        f"{done.operations:,} operations on {done.keys:,} keys: {done.sends:,} sends, {done.reads:,} reads, "
        f"{done.transactions:,} transactions\nto audit them: tidelog audit {folder}\n"
    )
    return ExitCode.HELD
