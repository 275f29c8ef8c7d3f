"""How settings in the keeper are changed: with a notification, and only if no other change came first."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.core.keeper_paths import CONFIG_CHANGE_PREFIX
from tidelog.core.keeper_port import Create, Multi, Result, SetValue, Write
from tidelog.core.keeper_tasks import Procedure

ATTEMPTS_MAX = 20
"""Attempts of a change that conflicts with others."""
TOO_MANY_CONFLICTS = "Too many conflicts."


def values_of(settings: Result) -> dict[str, str]:
    return (settings.value.value or {}) if settings.ok else {}


def altered(before: Mapping[str, str], values: Mapping[str, str | None], *, replace: bool) -> dict[str, str]:
    after = {} if replace else dict(before)
    for name, value in values.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
    return after


def write(path: str, settings: Result, after: dict[str, str], entity: str, *fences: Write) -> Procedure[bool]:
    """Write the settings at ``path`` that were read as ``settings``, and the notification that names the
    ``entity``. False after a conflict with another change, or with an earlier attempt whose answer was
    lost."""
    result = yield Multi(
        (
            *fences,
            SetValue(path, after, settings.value.stat.version) if settings.ok else Create(path, after),
            Create(CONFIG_CHANGE_PREFIX, entity, sequential=True),
        )
    )
    return result.ok
