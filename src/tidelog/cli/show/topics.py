"""Topics as tables and as JSON."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import columns
from tidelog.kafka_client.admin import PartitionView, TopicView

_STYLES = {"ok": palette.GOOD, "under-replicated": palette.WARNING, "leaderless": palette.BAD}
_OVERVIEW = ("topic", "partitions", "replicas", "state")
_DETAILS = ("partition", "leader", "epoch", "replicas", "ISR", "start", "HW", "LEO", "state")


def overview(topics: list[TopicView]) -> list[Text]:
    if not topics:
        return [Text("no topics")]
    rows: list[list[Text | str]] = [
        [
            Text(topic.name, palette.FAINT if topic.internal else palette.COMMAND),
            str(len(topic.partitions)),
            str(max((len(part.replicas) for part in topic.partitions), default=0)),
            _states(topic),
        ]
        for topic in topics
    ]
    return columns(_OVERVIEW, rows, "lrrl")


def _states(topic: TopicView) -> Text:
    """`ok`, or the number of partitions in each bad state."""
    troubled = [
        (sum(part.state == state for part in topic.partitions), state)
        for state in ("leaderless", "under-replicated")
    ]
    words = [Text(f"{count} {state}", _STYLES[state]) for count, state in troubled if count]
    return Text(", ").join(words) if words else Text("ok", palette.GOOD)


def details(topics: list[TopicView]) -> list[Text]:
    if not topics:
        return [Text("no topics")]
    lines: list[Text] = []
    for topic in topics:
        settings = "  ".join(f"{name}={value}" for name, value in sorted(topic.settings.items()))
        lines.append(Text.assemble((topic.name, palette.COMMAND), f"  {settings}" if settings else ""))
        lines += columns(_DETAILS, [_row(part) for part in topic.partitions], "rrrllrrrl")
        lines.append(Text())
    return lines[:-1]


def _row(part: PartitionView) -> list[Text | str]:
    missing = [broker for broker in part.replicas if broker not in part.isr]
    state = Text(part.state, _STYLES[part.state])
    if missing:
        state.append(f": {', '.join(map(str, missing))} not in sync")
    if part.elr:
        state.append(f"; ELR {','.join(map(str, part.elr))}")
    if part.last_known_elr:
        state.append(f"; last known leader {','.join(map(str, part.last_known_elr))}")
    if part.adding:
        state.append(f"; adding {','.join(map(str, part.adding))}")
    if part.removing:
        state.append(f"; removing {','.join(map(str, part.removing))}")
    return [
        str(part.number),
        Text("none", palette.BAD) if part.leader < 0 else Text(str(part.leader), palette.STRONG),
        "-" if part.leader_epoch < 0 else str(part.leader_epoch),
        ",".join(map(str, part.replicas)),
        Text(",".join(map(str, part.isr)), _STYLES[part.state] if part.state != "ok" else ""),
        *(
            "-" if n is None else str(n)
            for n in (part.start_offset, part.high_watermark, part.log_end_offset)
        ),
        state,
    ]


def as_json(topic: TopicView, *, detailed: bool = False) -> dict[str, Any]:
    value: dict[str, Any] = {"topic": topic.name, "internal": topic.internal}
    if detailed:
        value["settings"] = topic.settings
    value["partitions"] = [_partition_json(part, detailed=detailed) for part in topic.partitions]
    return value


def _partition_json(part: PartitionView, *, detailed: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "partition": part.number,
        "leader": part.leader,
        "leader_epoch": part.leader_epoch,
        "replicas": part.replicas,
        "isr": part.isr,
        "offline_replicas": part.offline,
        "state": part.state,
    }
    if detailed:
        value["adding_replicas"] = part.adding
        value["removing_replicas"] = part.removing
    if detailed and part.elr is not None:
        value["eligible_leader_replicas"] = part.elr
        value["last_known_elr"] = part.last_known_elr
    if detailed:
        value["start_offset"] = part.start_offset
        value["high_watermark"] = part.high_watermark
        value["log_end_offset"] = part.log_end_offset
    return value
