"""Print the page of all settings from the table that brokers read.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_settings.py > docs/reference/settings.md``.
"""

from itertools import groupby

from tidelog.settings.broker import ALIASES, REQUIRED, Setting, table
from tidelog.settings.kinds import LONG_MAX

HEAD = """\
# Settings of a broker

In a Java properties file (`tidelog broker --properties FILE`), or one by one with `--set name=value`, which
comes last. `tidelog up` takes both for all of its brokers. Names and defaults are those of Apache Kafka 2.7
unless the text says otherwise; names that begin with `tidelog.` are its own. `tidelog broker --settings`
prints this table.

A wrong value is refused with the line it stands in. Names that Kafka knows and tidelog has no use for are
noted and ignored; unknown ones are warned about, with the nearest name there is; so is everything that
promises encryption or authentication, because connections have neither.

Settings of a single topic (`retention.ms`, `min.insync.replicas`, …) are given when it is created or altered
and win over those here.

<!-- Written by docs/reference/make_settings.py. -->
"""


def row(setting: Setting) -> str:
    names = [setting.name, *(alias for alias, name in ALIASES.items() if name == setting.name)]
    default = "required" if setting.default is REQUIRED else f"`{setting.default_text}`"
    if setting.default_text == "":
        default = ""
    if setting.default == LONG_MAX:
        default = "2⁶³-1"
    called = " or ".join(f"`{name}`" for name in names)
    return f"| {called} | {setting.kind.describes} | {default} | {setting.doc} |"


def page() -> str:
    parts = [HEAD]
    for group, settings in groupby(table().values(), key=lambda setting: setting.group):
        parts.append(f"\n## {group}\n\n| name | value | default | |\n|---|---|---|---|\n")
        parts += [row(setting) + "\n" for setting in settings]
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
