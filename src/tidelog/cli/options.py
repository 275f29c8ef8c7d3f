"""Options that several commands share, and lookup of the names given to them.

An unknown name is refused with the nearest known names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli import completion
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal, unknown

if TYPE_CHECKING:
    from tidelog.kafka_client.admin import Admin
    from tidelog.lab.search.schedule import FaultChoice
    from tidelog.scenario.scenario import Scenario


def flag(help_: str, *names: str, **more: Any) -> Any:
    """An option that is given or not."""
    return typer.Option(*names, help=help_, **more)


def value(metavar: str, help_: str, *names: str, default: bool | str = True, **more: Any) -> Any:
    """An option with a value, by default under the name of its parameter. `default` is what --help says about
    its default: that itself, nothing, or these words."""
    return typer.Option(*names, metavar=metavar, help=help_, show_default=default, **more)


GenerationOption = Annotated[
    str | None,
    value(
        "G",
        "Replication rules: hw (Kafka <= 0.10), kip101 (0.11), epoch (2.7), elr (4.1), majority (Raft).",
        "--generation",
        "-g",
        default="from the scenario, else epoch",
        autocompletion=completion.generations,
    ),
]
ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name from 'tidelog scenario list', or a file.",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
GenerationChoice = Annotated[
    str,
    value(
        "G",
        "Replication rules: hw, kip101, epoch, elr or majority.",
        "--generation",
        "-g",
        autocompletion=completion.generations,
    ),
]
MasterOption = Annotated[str | None, value("URL", "Spark master to run on.", default="this machine")]
RemoteOption = Annotated[str | None, value("sc://H:P", "Spark Connect server to run on.", default=False)]
UncleanOption = Annotated[bool, flag("Allow unclean leader election.", "--unclean")]
JsonOption = Annotated[bool, flag("Print JSON.", "--json")]
TranscriptOption = Annotated[
    bool,
    flag("Print the transcript: the scenario file with the events below each step.", "--transcript"),
]
ServersOption = Annotated[
    str | None,
    value(
        "H:P,…",
        "Bootstrap servers.",
        "--bootstrap-servers",
        "-b",
        default="the running cluster, else 127.0.0.1:9092",
    ),
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False)]
ClusterDirOption = Annotated[
    Path | None,
    value(
        "D",
        "Data directory of the cluster.",
        "--data-dir",
        default="the last cluster started",
        callback=absolute,
    ),
]


def servers_of(given: str | None) -> str:
    """The servers of `--bootstrap-servers`, or those of the running cluster. Raises `Refusal`."""
    from tidelog.cluster.conditions import latest_servers

    if given is not None and not given.strip():
        raise Refusal("--bootstrap-servers is empty: give HOST:PORT, or leave it out for the running cluster")
    return given or latest_servers()


def admin_of(bootstrap_servers: str | None) -> Admin:
    from tidelog.kafka_client.admin import Admin

    return Admin(servers_of(bootstrap_servers))


def settings_given(assigned: list[str] | None) -> dict[str, str]:
    """Of a topic: `NAME=VALUE` of each --config."""
    from tidelog.settings.properties import assignment

    return {entry.name: entry.value for entry in (assignment(text, "--config") for text in assigned or [])}


def generation_named(name: str) -> str:
    from tidelog.core.generations import GENERATIONS

    if name not in GENERATIONS:
        raise unknown("generation", name, tuple(GENERATIONS))
    return name


def guards_named(names: list[str]) -> tuple[str, ...]:
    from dataclasses import fields

    from tidelog.core.guards import Guards

    known = tuple(guard.name for guard in fields(Guards))
    for name in names:
        if name not in known:
            raise unknown("guard", name, known)
    return tuple(dict.fromkeys(names))


def faults_named(kinds: str, *, power: bool, budget: int) -> FaultChoice:
    """The faults in a comma-separated list, or ``none``."""
    from tidelog.faults import SEARCH_FAULTS
    from tidelog.lab.search.schedule import FaultChoice

    named = () if kinds == "none" else kinds.split(",")
    wanted = dict.fromkeys(one_of("fault", kind.strip(), tuple(SEARCH_FAULTS)) for kind in named)
    chosen = FaultChoice(tuple(wanted), budget)
    return chosen.also("power") if power else chosen


def invariant_named(name: str) -> str:
    from tidelog.lab.invariants import INVARIANTS

    return one_of("invariant", name, tuple(invariant.name for invariant in INVARIANTS))


def one_of(what: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise unknown(what, given, known)
    return given


def _is_path(name: str) -> bool:
    return os.sep in name or name.endswith((".scenario", ".transcript", ".txt")) or Path(name).exists()


def scenario_text(name: str) -> str:
    """The text of a scenario from the catalogue or from a file."""
    from tidelog.scenario import catalogue

    if name not in catalogue.names() and _is_path(name):
        return catalogue.file_text(Path(name))
    return catalogue.text(name)


def _parsed(text: str, origin: str, generation: str | None) -> Scenario:
    from tidelog.scenario.scenario import parse

    if generation is not None:
        generation_named(generation)
    scenario = parse(text, origin)
    return scenario if generation is None else scenario.under(generation)


def scenario_named(name: str, generation: str | None = None) -> Scenario:
    """A scenario from the catalogue or from a file, under its own generation or the given one."""
    return _parsed(scenario_text(name), name, generation)


def scenario_file(path: str, generation: str | None = None) -> Scenario:
    """A scenario from a file, under its own generation or the given one."""
    from tidelog.scenario import catalogue

    text = catalogue.file_text(Path(path))
    return _parsed(text, path, generation)
