"""``tidelog topics``: list, describe, create, delete, alter, add partitions, reassign."""

from __future__ import annotations

from contextlib import suppress

import typer

from tidelog.cli.commands.topics_reassign import reassign
from tidelog.cli.help import Command, Group
from tidelog.cli.options import JsonOption, ServersOption, TopicArgument, admin_of, settings_given
from tidelog.cli.parameters import topics as given
from tidelog.cli.show.output import console, write_json, write_lines, write_text
from tidelog.errors import Refusal
from tidelog.narrate.numbers import counted

app = typer.Typer(
    help="Manage topics of a running tidelog or Apache Kafka cluster.",
    no_args_is_help=False,
    rich_markup_mode=None,
    cls=Group,
)


@app.command("list", cls=Command)
def list_topics(bootstrap_servers: ServersOption = None, as_json: JsonOption = False) -> None:
    """List all topics.

    Example: tidelog topics list
    """
    with admin_of(bootstrap_servers) as admin:
        topics = admin.topics()
    from tidelog.cli.show import topics as topic_tables

    if as_json:
        write_json([topic_tables.as_json(topic) for topic in topics])
    else:
        write_lines(console(), topic_tables.overview(topics))


@app.command("describe", cls=Command)
def describe(
    names: given.TopicsArgument = None, bootstrap_servers: ServersOption = None, as_json: JsonOption = False
) -> None:
    """Show leader, in-sync replicas and offsets of each partition.

    Example: tidelog topics describe events
    """
    from tidelog.kafka_client.blocking import ClientError

    with admin_of(bootstrap_servers) as admin:
        topics = admin.topics(names or None)
        admin.add_eligible(topics)
        with suppress(ClientError):  # brokers before Kafka 2.4 do not know
            admin.add_moves(topics)
        admin.add_offsets(topics)
        with suppress(ClientError):  # the rest is useful without the settings
            admin.add_settings(topics)
    from tidelog.cli.show import topics as topic_tables

    if as_json:
        write_json([topic_tables.as_json(topic, detailed=True) for topic in topics])
    else:
        write_lines(console(), topic_tables.details(topics))


@app.command("create", cls=Command)
def create(
    name: TopicArgument,
    partitions: given.PartitionsOption = None,
    replicas: given.ReplicasOption = None,
    config: given.ConfigOption = None,
    bootstrap_servers: ServersOption = None,
) -> None:
    """Create a topic and wait until its partitions have leaders.

    Example: tidelog topics create events -p 6 -r 3 -c min.insync.replicas=2
    """
    from tidelog.kafka_client.admin import DEFAULT

    settings = settings_given(config)
    with admin_of(bootstrap_servers) as admin:
        admin.create(name, partitions=partitions or DEFAULT, replicas=replicas or DEFAULT, settings=settings)
        led = admin.wait_for_leaders(name, partitions or 1)
        (topic,) = admin.topics([name]) if led else (None,)
    if topic is None:
        write_text(f"created {name}; some of its partitions have no leader yet\n")
    else:
        copies = len(topic.partitions[0].replicas)
        write_text(
            f"created {name}: {counted(len(topic.partitions), 'partition')}, {counted(copies, 'replica')}\n"
        )


@app.command("delete", cls=Command)
def delete(
    names: given.NamesArgument,
    bootstrap_servers: ServersOption = None,
) -> None:
    """Delete topics and all their records.

    Example: tidelog topics delete events
    """
    with admin_of(bootstrap_servers) as admin:
        for name in names:
            admin.delete(name)
            gone = admin.wait_until_gone(name)
            write_text(
                f"deleted {name}\n" if gone else f"{name} will be deleted; some of its replicas are offline\n"
            )


@app.command("alter", cls=Command)
def alter(
    name: TopicArgument,
    config: given.ConfigOption = None,
    remove: given.RemoveOption = None,
    bootstrap_servers: ServersOption = None,
) -> None:
    """Change the settings of a topic.

    Example: tidelog topics alter events -c retention.ms=3600000
    """
    settings = settings_given(config)
    if not settings and not remove:
        raise Refusal("nothing to change: give --config NAME=VALUE or --delete-config NAME")
    with admin_of(bootstrap_servers) as admin:
        admin.alter(name, settings, remove or [])
    write_text(f"altered {name}\n")


@app.command("partitions", cls=Command)
def partitions(
    name: TopicArgument,
    count: given.CountArgument,
    bootstrap_servers: ServersOption = None,
) -> None:
    """Add partitions to a topic. Producers may then send existing keys to other partitions.

    Example: tidelog topics partitions events 12
    """
    with admin_of(bootstrap_servers) as admin:
        admin.add_partitions(name, count)
        admin.wait_for_leaders(name, count)
    write_text(f"{name} has {counted(count, 'partition')}\n")


app.command("reassign", cls=Command)(reassign)
