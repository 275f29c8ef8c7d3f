"""Print the page of all settings from the table that brokers read.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_settings.py > docs/reference/settings.md``.
"""

from itertools import groupby

from tidelog.settings.broker import BROKER
from tidelog.settings.dynamic import DYNAMIC
from tidelog.settings.kinds import LONG_MAX
from tidelog.settings.table import REQUIRED, Setting
from tidelog.settings.topic import TOPIC

HEAD = """\
# Settings of brokers and topics

In a Java properties file (`tidelog broker --properties FILE`), or one by one with `--set name=value`, which
comes last. `tidelog up` takes both for all of its brokers. Names and defaults are those of Apache Kafka 2.7
unless the text says otherwise; names that begin with `tidelog.` are its own. `tidelog broker --settings`
prints this table.

A wrong value is refused with the number of its line. Names that Kafka knows and tidelog has no use for are
noted and ignored; unknown ones are warned about, with the nearest name there is; so is everything that
promises encryption or authentication, because connections have neither.

A topic has [settings of its own](#of-a-single-topic), which are given when it is created or altered and win
over those of the broker.

<!-- Written by docs/reference/make_settings.py. -->
"""
OF_TOPICS = """
## Of a single topic

The default is the value of a broker's setting.

| name | value | default | |
|---|---|---|---|
"""
OF_RUNNING_BROKERS = """
## Of a running broker

These are in no file. Admin clients and `kafka-configs` set them while brokers run, for one broker or for
every broker (`--entity-default`); those of one broker win. They are kept in the keeper, and brokers obey them
at once and after a restart. A broker refuses to change any other setting while it runs. For a move,
`tidelog topics reassign --throttle` sets them ([move partitions](../guide/cluster.md#move-partitions)).

| name | value | default | |
|---|---|---|---|
"""


def row(setting: Setting) -> str:
    names = [setting.name, *(alias for alias, name in BROKER.aliases.items() if name == setting.name)]
    default = "required" if setting.default is REQUIRED else f"`{setting.default_text}`"
    if setting.default_text == "":
        default = ""
    if setting.default == LONG_MAX:
        default = "2⁶³-1"
    called = " or ".join(f"`{name}`" for name in names)
    return f"| {called} | {setting.kind.describes} | {default} | {setting.doc} |"


def page() -> str:
    parts = [HEAD]
    for group, settings in groupby(BROKER.values(), key=lambda setting: setting.group):
        parts.append(f"\n## {group}\n\n| name | value | default | |\n|---|---|---|---|\n")
        parts += [row(setting) + "\n" for setting in settings]
    parts.append(OF_TOPICS)
    for setting in TOPIC.values():
        default = f"`{setting.broker_default}`" if setting.broker_default else ""
        parts.append(f"| `{setting.name}` | {setting.kind.describes} | {default} | {setting.doc} |\n")
    parts.append(OF_RUNNING_BROKERS)
    parts += [row(setting) + "\n" for setting in DYNAMIC.values()]
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
