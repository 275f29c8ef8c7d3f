"""Consumer groups as tables and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from tidelog.cli.show import palette
from tidelog.cli.show.lines import columns, or_dash
from tidelog.kafka_client.groups import assigned
from tidelog.narrate.numbers import counted
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup

_HEADS = ("partition", "committed", "end", "lag", "member")


@dataclass(slots=True)
class GroupView:
    group: DescribedGroup
    committed: dict[tuple[str, int], int]
    ends: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """The high watermarks; None where no leader answers."""

    def owners(self) -> dict[tuple[str, int], DescribedGroupMember]:
        return {
            (topic, number): member
            for member in self.group.members
            for topic, numbers in assigned(bytes(member.member_assignment)).items()
            for number in numbers
        }

    def owners_by_topic(self) -> set[str]:
        return {topic for topic, _ in self.owners()}

    def lag(self, part: tuple[str, int]) -> int | None:
        end, committed = self.ends.get(part), self.committed.get(part)
        return None if end is None or committed is None else max(end - committed, 0)


def overview(groups: list[ListedGroup]) -> list[Text]:
    if not groups:
        return [Text("no groups")]
    rows: list[list[Text | str]] = [
        [Text(each.group_id, palette.COMMAND), each.group_state or "-"] for each in groups
    ]
    return columns(("group", "state"), rows)


def details(view: GroupView) -> list[Text]:
    group, owners = view.group, view.owners()
    members = counted(len(group.members), "member")
    lines = [Text.assemble((group.group_id, palette.COMMAND), f"  {group.group_state}, {members}")]
    parts = sorted({*view.committed, *owners})
    if not parts:
        return [*lines, Text("no offsets are committed")]
    rows: list[list[Text | str]] = []
    for part in parts:
        owner = owners.get(part)
        lag = view.lag(part)
        rows.append(
            [
                f"{part[0]}-{part[1]}",
                or_dash(view.committed.get(part)),
                or_dash(view.ends.get(part)),
                Text(or_dash(lag), palette.WARNING if lag else ""),
                "-" if owner is None else f"{owner.client_id} {owner.client_host}",
            ]
        )
    return lines + columns(_HEADS, rows, "lrrrl")


def as_json(view: GroupView) -> dict[str, Any]:
    group, owners = view.group, view.owners()
    return {
        "group": group.group_id,
        "state": group.group_state,
        "protocol": group.protocol_data or None,
        "members": [
            {
                "id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "partitions": [
                    f"{topic}-{number}"
                    for topic, numbers in assigned(bytes(member.member_assignment)).items()
                    for number in numbers
                ],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": part[0],
                "partition": part[1],
                "committed": view.committed.get(part),
                "end": view.ends.get(part),
                "lag": view.lag(part),
                "member": owners[part].member_id if part in owners else None,
            }
            for part in sorted({*view.committed, *owners})
        ],
    }
