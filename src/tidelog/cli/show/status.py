"""The state of a cluster on this machine, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import columns
from tidelog.cluster.conditions import BrokerCondition, Condition
from tidelog.cluster.directory import ClusterStatus
from tidelog.kafka_client.admin import TopicView
from tidelog.narrate.numbers import counted, moment

_STYLES = {
    Condition.RUNNING: palette.GOOD,
    Condition.STARTING: palette.WARNING,
    Condition.PAUSED: palette.WARNING,
    Condition.DOWN: palette.BAD,
}
_HEADS = ("broker", "state", "address", "leads", "in sync", "pid", "metrics")
_OK = "ok"
_NAMED_MAX = 5


@dataclass(slots=True)
class Seen:
    """What one look at a cluster has found. Topics are None if no broker answers."""

    folder: Path
    cluster: ClusterStatus
    brokers: list[BrokerCondition]
    seconds: float | None
    topics: list[TopicView] | None = None
    controller: int = -1
    why_unknown: str = "no broker can answer"

    @property
    def is_well(self) -> bool:
        """Every broker runs, and every replica of every partition is in sync."""
        return (
            all(each.condition is Condition.RUNNING for each in self.brokers)
            and self.controller >= 0
            and self.topics is not None
            and set(self.states) <= {_OK}
        )

    @property
    def states(self) -> Counter[str]:
        return Counter(part.state for topic in self.topics or () for part in topic.partitions)

    def led_by(self, broker: int) -> int:
        return sum(part.leader == broker for topic in self.topics or () for part in topic.partitions)

    def replicas_of(self, broker: int) -> tuple[int, int]:
        """How many replicas of a broker are in sync, and how many it has."""
        parts = [part for topic in self.topics or () for part in topic.partitions if broker in part.replicas]
        return sum(broker in part.isr for part in parts), len(parts)


def trouble(seen: Seen) -> str:
    """What keeps a cluster from being well, as what is waited for."""
    down = [each for each in seen.brokers if each.condition is not Condition.RUNNING]
    if down:
        return "; ".join(f"broker {each.broker.id} is {each.condition}" for each in down)
    if seen.topics is None:
        return seen.why_unknown
    if seen.controller < 0:
        return "there is no controller"
    return _parts(seen)


def _parts(seen: Seen) -> str:
    found = [
        (state, f"{topic.name}-{part.number}")
        for topic in seen.topics or ()
        for part in topic.partitions
        if (state := part.state) != _OK
    ]
    names = ", ".join(name for _, name in found[:_NAMED_MAX]) + (", …" if len(found) > _NAMED_MAX else "")
    counts = Counter(state for state, _ in found)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) + f" ({names})"


def lines(seen: Seen) -> list[Text]:
    cluster = seen.cluster
    age = f" · up {moment(seen.seconds * 1000)}" if seen.seconds is not None else ""
    title = (
        f"{counted(len(cluster.brokers), 'broker')} · generation {cluster.generation}{age} · {seen.folder}"
    )
    return [
        Text(title),
        Text(f"bootstrap.servers={cluster.bootstrap_servers}", palette.FAINT),
        *columns(_HEADS, [_row(seen, each) for each in seen.brokers], "rllrrrl"),
        *_verdict(seen),
        *_advice(seen),
    ]


def _row(seen: Seen, each: BrokerCondition) -> list[Text | str]:
    number = each.broker.id
    state = Text(each.condition, _STYLES[each.condition])
    if number == seen.controller:
        state.append(", controller", "")
    if each.by_hand:
        state.append(", started by hand", "")
    in_sync, held = seen.replicas_of(number)
    known = seen.topics is not None
    port = _metrics_port(each) if each.condition is not Condition.DOWN else None
    return [
        str(number),
        state,
        each.broker.address,
        str(seen.led_by(number)) if known else "-",
        Text(f"{in_sync}/{held}", "" if in_sync == held else palette.WARNING) if known else "-",
        "-" if each.pid is None else str(each.pid),
        "-" if port is None else f"http://{each.broker.host}:{port}/metrics",
    ]


def _metrics_port(each: BrokerCondition) -> int | None:
    """Of a broker that was started by hand it is unknown: it may have chosen another free port."""
    port = each.broker.metrics_port
    return None if port <= 0 or each.by_hand else port


def _verdict(seen: Seen) -> list[Text]:
    if seen.topics is None:
        return [Text(f"topics: unknown, {seen.why_unknown}", palette.BAD)]
    states = seen.states
    topics = sum(not topic.internal for topic in seen.topics)
    head = f"{counted(topics, 'topic')}, {counted(states.total(), 'partition')} with the internal ones: "
    if unnoticed := _unnoticed(seen):
        words = f"not noticed yet by the others: {unnoticed} (until its session times out)"
        return [Text.assemble(head, (words, palette.WARNING))]
    if set(states) <= {_OK}:
        return [Text.assemble(head, ("all replicas are in sync", palette.GOOD))]
    worst = palette.BAD if states["leaderless"] else palette.WARNING
    return [Text.assemble(head, (_parts(seen), worst))]


def _unnoticed(seen: Seen) -> str:
    """Brokers that cannot answer, and that the metadata still has as leaders or in sync."""
    away = (each for each in seen.brokers if each.condition in (Condition.DOWN, Condition.PAUSED))
    still = [each for each in away if seen.led_by(each.broker.id) or seen.replicas_of(each.broker.id)[0]]
    return ", ".join(f"broker {each.broker.id} is {each.condition}" for each in still)


def _advice(seen: Seen) -> list[Text]:
    """The command that undoes each thing that is wrong."""
    wrong = {Condition.DOWN: "restart", Condition.PAUSED: "resume"}
    undo = []
    for condition, command in wrong.items():
        numbers = [str(each.broker.id) for each in seen.brokers if each.condition is condition]
        if numbers:
            undo.append(f"tidelog {command} {' '.join(numbers)}")
    return [Text(f"to undo: {'; '.join(undo)}", palette.FAINT)] if undo else []


def as_json(seen: Seen) -> dict[str, Any]:
    return {
        "data_dir": str(seen.folder),
        "generation": seen.cluster.generation,
        "bootstrap_servers": seen.cluster.bootstrap_servers,
        "keeper": seen.cluster.keeper,
        "pid": seen.cluster.pid,
        "seconds_running": None if seen.seconds is None else round(seen.seconds, 1),
        "well": seen.is_well,
        "controller": seen.controller if seen.controller >= 0 else None,
        "brokers": [_broker_json(seen, each) for each in seen.brokers],
        "partitions": None if seen.topics is None else dict(sorted(seen.states.items())),
    }


def _broker_json(seen: Seen, each: BrokerCondition) -> dict[str, Any]:
    in_sync, held = seen.replicas_of(each.broker.id)
    known = seen.topics is not None
    return {
        "id": each.broker.id,
        "state": each.condition,
        "address": each.broker.address,
        "pid": each.pid,
        "by_hand": each.by_hand,
        "metrics_port": _metrics_port(each),
        "leads": seen.led_by(each.broker.id) if known else None,
        "replicas": held if known else None,
        "in_sync": in_sync if known else None,
    }
