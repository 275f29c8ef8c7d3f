"""Tables of settings, and the values of one table as plain attributes.

A subclass of `Values` is a table: an attribute made by `row` is one setting, with Kafka's name and
underscores for dots. Parsing, error messages, DescribeConfigs, `tidelog broker --settings` and
`docs/reference/settings.md` all use the rows. An instance holds only values, so that reading one is a plain
attribute access. Plain classes: data classes would cost a starting broker milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, overload

from tidelog.errors import Refusal
from tidelog.settings.kinds import KafkaType, Kind

T = TypeVar("T")
V = TypeVar("V", bound="Values")


class SettingsError(Refusal):
    """An invalid value, or an unknown name. The message is one line that says what to change."""

    def __init__(self, message: str, *, lacks: str | None = None) -> None:
        super().__init__(message)
        self.lacks = lacks
        """The missing setting, if one is missing."""


class Required:
    """Marks a setting without a default."""


REQUIRED: Final = Required()


class Setting:
    """One row. ``broker_default`` names the broker's setting that is the default of a topic's setting; most
    have one."""

    __slots__ = ("attribute", "broker_default", "default", "doc", "group", "kind", "name")

    def __init__(
        self, kind: Kind[Any], default: Any, doc: str, *, name: str, group: str, broker_default: str
    ) -> None:
        self.name, self.attribute = name, ""
        self.kind, self.default, self.doc = kind, default, doc
        self.group, self.broker_default = group, broker_default

    def show(self, value: Any) -> str:
        """A value as written in a file."""
        return "" if value is None else self.kind.show(value)

    @property
    def default_text(self) -> str:
        return "(required)" if self.default is REQUIRED else self.show(self.default)


@overload
def row(kind: Kind[T], default: None, doc: str, *, group: str = ...) -> T | None: ...
@overload
def row(
    kind: Kind[T],
    default: T | Required,
    doc: str,
    *,
    group: str = ...,
    name: str = ...,
    broker_default: str = ...,
) -> T: ...
def row(
    kind: Kind[Any], default: Any, doc: str, *, group: str = "", name: str = "", broker_default: str = ""
) -> Any:
    """Declare a setting. The type checker sees its value. `group` is the heading of this row and the rows
    after it."""
    return Setting(kind, default, doc, name=name, group=group, broker_default=broker_default)


class ConfigSource(IntEnum):
    """The source of a value, numbered as on the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    BROKER = 4
    DEFAULT = 5


class Described(NamedTuple):
    """One setting in DescribeConfigs."""

    name: str
    value: str
    source: ConfigSource
    doc: str
    type: KafkaType

    @property
    def is_default(self) -> bool:
        return self.source in (ConfigSource.BROKER, ConfigSource.DEFAULT)


class SettingsTable(dict[str, Setting]):
    """Rows by name, in display order."""

    def __init__(self, noun: str, rows: Iterable[Setting], aliases: Mapping[str, str]) -> None:
        super().__init__((setting.name, setting) for setting in rows)
        self.aliases = aliases
        """Other names of settings."""
        self._noun = noun

    def parse(self, name: str, text: str) -> Any:
        """The value of a setting, or `SettingsError`."""
        setting = self[self.aliases.get(name, name)]
        stripped = text.strip()
        # An optional setting may be empty, as in many sample files.
        if not stripped and setting.default in (None, ""):
            return setting.default
        try:
            return setting.kind.parse(stripped)
        except ValueError as error:
            raise SettingsError(f"{name}={text}: {error}") from None

    def unknown(self, name: str, where: str = "") -> str:
        """The message about a name that is not in the table."""
        import difflib  # imported here, because most brokers start without it

        near = difflib.get_close_matches(name, [*self, *self.aliases], n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        return f"unknown {self._noun} {name}{where}{hint}"

    def describe(self, *layers: tuple[ConfigSource, Mapping[str, str]]) -> list[Described]:
        """All settings, each with the value of the first layer that has one."""
        described = []
        for name, setting in self.items():
            found = ((values[name], source) for source, values in layers if name in values)
            value, source = next(found, (setting.default_text, ConfigSource.DEFAULT))
            described.append(Described(name, value, source, setting.doc, setting.kind.type))
        return described


class Values:
    """Base class of a table's values. Instances are immutable."""

    table: ClassVar[SettingsTable]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, noun: str, aliases: Mapping[str, str] | None = None) -> None:
        rows = {name: made for name, made in vars(cls).items() if isinstance(made, Setting)}
        group = ""
        for attribute, setting in rows.items():
            # Without a class attribute of this name Python finds the instance's faster.
            delattr(cls, attribute)
            group = setting.group = setting.group or group
            setting.attribute = attribute
            setting.name = setting.name or attribute.replace("_", ".")
        cls.table = SettingsTable(noun, rows.values(), aliases or {})
        cls._defaults = {name: made.default for name, made in rows.items() if made.default is not REQUIRED}

    def __init__(self, **values: Any) -> None:
        attributes = {setting.attribute for setting in self.table.values()}
        if not values.keys() <= attributes:
            raise TypeError(f"no settings of {type(self).__name__}: {', '.join(values.keys() - attributes)}")
        for name, setting in self.table.items():
            if setting.default is REQUIRED and setting.attribute not in values:
                text = f"{name} is missing: {setting.doc[0].lower()}{setting.doc[1:]}"
                raise SettingsError(text, lacks=name)
        vars(self).update(self._defaults)
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: settings are set once, see `replace`")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def texts(self) -> dict[str, str]:
        """All values as written in a file."""
        return {name: setting.show(getattr(self, setting.attribute)) for name, setting in self.table.items()}

    def chosen(self) -> dict[str, str]:
        """The values that differ from their defaults, as written in a file."""
        return {
            name: text
            for name, text in self.texts().items()
            if getattr(self, self.table[name].attribute) != self.table[name].default
        }


def replace(values: V, **changes: Any) -> V:
    """A copy with some values replaced."""
    return type(values)(**{**vars(values), **changes})
