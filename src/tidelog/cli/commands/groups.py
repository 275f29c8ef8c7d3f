"""``tidelog groups``: list and describe consumer groups, move and delete their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.help import Command, Group
from tidelog.cli.options import JsonOption, ServersOption, one_of, servers_of, value
from tidelog.cli.show.output import console, write_json, write_lines, write_text
from tidelog.errors import Refusal, unknown

if TYPE_CHECKING:
    from tidelog.cli.show.groups import GroupView

app = typer.Typer(
    help="Consumer groups: list, describe (lag), reset, delete.",
    no_args_is_help=False,
    rich_markup_mode=None,
    cls=Group,
)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Group name.", show_default=False)]


@app.command("list", cls=Command)
def list_groups(bootstrap_servers: ServersOption = None, as_json: JsonOption = False) -> None:
    """List all consumer groups.

    Example: tidelog groups list
    """
    from tidelog.kafka_client import groups

    found = groups.listed(servers_of(bootstrap_servers))
    from tidelog.cli.show import groups as tables

    if as_json:
        write_json([{"group": each.group_id, "state": each.group_state or None} for each in found])
    else:
        write_lines(console(), tables.overview(found))


@app.command("describe", cls=Command)
def describe(
    group: GroupArgument, bootstrap_servers: ServersOption = None, as_json: JsonOption = False
) -> None:
    """Show the members of a group, its committed offsets and its lag.

    Example: tidelog groups describe app
    """
    view = _view(servers_of(bootstrap_servers), group)
    from tidelog.cli.show import groups as tables

    if as_json:
        write_json(tables.as_json(view))
    else:
        write_lines(console(), tables.details(view))


@app.command("reset", cls=Command)
def reset(
    group: GroupArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False)],
    to: Annotated[str, value("WHERE", "beginning or end.", "--to")] = "beginning",
    bootstrap_servers: ServersOption = None,
) -> None:
    """Move the committed offsets of a group without members.

    Example: tidelog groups reset app events --to beginning
    """
    from tidelog.kafka_client import groups
    from tidelog.kafka_client.admin import Admin

    one_of("place", to, ("beginning", "end"))
    servers = servers_of(bootstrap_servers)
    with Admin(servers) as admin:
        (view,) = admin.topics([topic])
        admin.add_offsets([view])
    offsets = {}
    for part in view.partitions:
        offset = part.start_offset if to == "beginning" else part.high_watermark
        if offset is None:
            raise Refusal(f"{topic}-{part.number} has no leader that answers: tidelog status shows why")
        offsets[part.number] = offset
    groups.commit(servers, group, topic, offsets)
    write_text(f"group {group} is at the {to} of {topic}\n")


@app.command("delete", cls=Command)
def delete(group: GroupArgument, bootstrap_servers: ServersOption = None) -> None:
    """Delete a group without members, with its committed offsets.

    Example: tidelog groups delete app
    """
    from tidelog.kafka_client import groups

    groups.delete(servers_of(bootstrap_servers), group)
    write_text(f"deleted group {group}\n")


def _view(servers: str, group: str) -> GroupView:
    from tidelog.cli.show.groups import GroupView
    from tidelog.kafka_client import groups
    from tidelog.kafka_client.admin import Admin

    names = tuple(each.group_id for each in groups.listed(servers))
    if group not in names:
        raise unknown("group", group, names, listed_by="tidelog groups list")
    described = groups.described(servers, group)
    if described is None:
        raise Refusal(f"group {group}: no broker coordinates it now")
    view = GroupView(described, groups.committed(servers, group) or {})
    topics = {name for name, _ in view.committed} | set(view.owners_by_topic())
    with Admin(servers) as admin:
        known = [each for each in admin.topics() if each.name in topics]
        admin.add_offsets(known)
    view.ends = {(each.name, part.number): part.high_watermark for each in known for part in each.partitions}
    return view
