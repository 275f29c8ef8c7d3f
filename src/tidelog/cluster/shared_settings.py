"""The settings that all brokers of a cluster share, from a file and from assignments.

What a cluster sets for each broker by itself is refused in an assignment, which a person just wrote, and left
out of a file, which may be one broker's server.properties.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.cluster.spec import KEEPER_NAMES, OWN_NAMES
from tidelog.errors import Refusal
from tidelog.settings.broker import BROKER
from tidelog.settings.loading import Level, gather, settle
from tidelog.settings.properties import Property


def shared_settings(
    path: Path | None, assignments: list[str], *, verbose: bool = False
) -> tuple[dict[str, str], list[tuple[bool, str]]]:
    """The settings, checked; and notes about them, as (is it a warning, text)."""
    filed = gather(path)
    given = gather(None, assignments)
    for entry in given:
        if entry.name in OWN_NAMES:
            raise Refusal(f"--set {entry.name}: tidelog up sets it for each broker; see tidelog broker")
        if entry.name in KEEPER_NAMES:
            raise Refusal(f"--set {entry.name}: name the keeper with --keeper")
    entries = [*filed, *given]
    kept = [entry for entry in entries if entry.name not in (*OWN_NAMES, *KEEPER_NAMES)]
    if verbose and all(entry.name != "tidelog.log.level" for entry in kept):
        kept.append(Property("tidelog.log.level", "debug", "--verbose"))
    needed = [Property("broker.id", "1", ""), Property("tidelog.keeper", "embedded://h:1", "")]
    loaded = settle([*kept, *needed])
    notes = [(remark.level is Level.WARNING, remark.text) for remark in loaded.remarks]
    dropped = [entry.name for entry in entries if entry not in kept]
    if dropped:
        notes.append(
            (False, f"{path}: tidelog up ignores {', '.join(dict.fromkeys(dropped))} and sets its own")
        )
    return {entry.name: entry.value for entry in kept if entry.name in BROKER}, notes
