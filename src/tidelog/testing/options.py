"""What a test run asks for: options of the command line, and the marker `kafka` of single tests.

`ClusterChoice` is what a cluster is to be; tests with equal choices share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tidelog.errors import Refusal, reason, unknown

BROKERS: Final = 3
GENERATION: Final = "epoch"
_MARKER: Final[Mapping[str, type]] = {
    "brokers": int,
    "generation": str,
    "settings": Mapping,
    "zones": Sequence,
    "network": str,
    "keeper": str,
    "slow_disks": bool,
    "fresh": bool,
}
_KINDS: Final = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    Sequence: "a list of texts",
    Mapping: "a dictionary with texts, numbers, booleans or paths",
}
"""What the arguments of markers can be, in words."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    brokers: int
    generation: str
    given: tuple[tuple[str, Any], ...] = ()
    """Further fields of a `ClusterSpec`; settings are among them."""
    servers: str = ""
    """A cluster that runs already."""
    fresh: int = 0
    """Not 0: for one test only."""
    named: tuple[str, ...] = ()
    """What a marker asks for, in words."""

    def arguments(self) -> dict[str, Any]:
        """For `Cluster`."""
        given = {name: dict(value) if name == "settings" else value for name, value in self.given}
        return {"brokers": self.brokers, "generation": self.generation, **given}


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "Kafka (tidelog)")
    group.addoption(
        "--kafka-brokers", type=int, default=BROKERS, metavar="N", help="brokers of a cluster (default: 3)"
    )
    group.addoption(
        "--kafka-generation",
        default=GENERATION,
        metavar="NAME",
        help="rules of replication: hw, kip101, epoch (default), elr or majority; a list such as hw,epoch "
        "runs each test that uses Kafka under each of them",
    )
    group.addoption(
        "--kafka-bootstrap-servers",
        default="",
        metavar="HOST:PORT,…",
        help="use this Kafka cluster instead of starting one; tests with faults are skipped",
    )
    group.addoption(
        "--kafka-schedule",
        default="",
        metavar="FAULTS",
        help="run tests with kafka_schedules under this one, such as 'kill 1 @750+2300': failures show it",
    )
    group.addoption(
        "--kafka-evidence",
        default="",
        metavar="DIR",
        help="where to keep the evidence of failed tests (default: pytest's temporary directory)",
    )


def choices(config: pytest.Config) -> list[ClusterChoice]:
    """What the command line asks for: one choice for each generation. Raises `pytest.UsageError`."""
    servers, brokers = config.getoption("--kafka-bootstrap-servers"), config.getoption("--kafka-brokers")
    if brokers < 1:
        raise pytest.UsageError(f"--kafka-brokers {brokers}: give at least 1")
    _check_schedule_and_folder(config.getoption("--kafka-schedule"), config.getoption("--kafka-evidence"))
    names = [name.strip() for name in config.getoption("--kafka-generation").split(",")]
    if names != [GENERATION]:
        from tidelog.core.generations import GENERATIONS

        for name in (name for name in names if name not in GENERATIONS):
            raise pytest.UsageError(f"--kafka-generation: {unknown('generation', name, tuple(GENERATIONS))}")
    if servers:
        from tidelog.kafka_client.blocking import ClientError, parse_servers

        if names != [GENERATION]:
            raise pytest.UsageError("--kafka-generation: not available with --kafka-bootstrap-servers")
        try:
            parse_servers(servers)
        except ClientError as error:
            raise pytest.UsageError(f"--kafka-bootstrap-servers {error}") from None
    return [ClusterChoice(brokers, name, servers=servers) for name in names]


def _check_schedule_and_folder(schedule: str, evidence: str) -> None:
    if schedule:
        from tidelog.testing.schedules import parsed

        try:
            parsed(schedule)
        except Refusal as error:
            raise pytest.UsageError(f"--kafka-schedule: {error}") from None
    if evidence:
        try:
            Path(evidence).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--kafka-evidence {evidence}: {reason(error)}") from None


def marked(choice: ClusterChoice, markers: Iterable[pytest.Mark]) -> ClusterChoice:
    """What a test asks for, by its markers from the outermost in. Raises `Refusal`."""
    asked: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise Refusal("pytest.mark.kafka takes names, such as kafka(brokers=1)")
        for name, value in marker.kwargs.items():
            if name not in _MARKER:
                raise unknown("argument of pytest.mark.kafka", name, tuple(_MARKER))
            check_kind(name, value, _MARKER[name])
            asked[name] = {**asked.get(name, {}), **value} if isinstance(value, Mapping) else value
    fresh = bool(asked.pop("fresh", False))
    named = tuple(f"{name}={_word(value)}" for name, value in asked.items())
    changed = replace(
        choice,
        brokers=asked.pop("brokers", choice.brokers),
        generation=asked.pop("generation", choice.generation),
        fresh=next(_numbers) if fresh else 0,
    )
    if "settings" in asked:
        asked["settings"] = tuple(sorted(asked["settings"].items()))
    if "zones" in asked:
        asked["zones"] = tuple(asked["zones"])
    return replace(changed, given=tuple(sorted(asked.items())), named=(*named, *(["fresh"] if fresh else [])))


def check_kind(name: str, value: Any, kind: type) -> None:
    """Whether an argument of a marker is what it must be. Raises `Refusal`."""
    if kind is Sequence:
        fits = isinstance(value, Sequence) and not isinstance(value, str)
        fits = fits and all(isinstance(each, str) for each in value)
    elif kind is Mapping:
        fits = isinstance(value, Mapping) and all(isinstance(each, str) for each in value)
        fits = fits and all(isinstance(each, str | int | float | Path) for each in value.values())
    else:
        fits = isinstance(value, (int, float) if kind is float else kind)
        fits = fits and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise Refusal(f"{name}={value!r}: give {_KINDS[kind]}")


def _word(value: object) -> str:
    if isinstance(value, Mapping):
        return "+".join(f"{name}={each}" for name, each in value.items())
    return str(value)
