"""Times in which a partition could not be written: by its state in the keeper, by the death of its leader,
and by the silence that clients heard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.audit.context import Context
from tidelog.pipeline.audit.evidence import Evidence
from tidelog.pipeline.audit.findings import NOTICE, Circumstance, Finding
from tidelog.pipeline.audit.kernels.hashes import starts_of

SILENCE_US: Final = 1_000_000
_WORDS: Final = {
    Circumstance.NO_LEADER: Phrase("detail.no_leader"),
    Circumstance.SILENCE: Phrase("detail.silence"),
}


def unavailable(
    context: Context, evidence: Evidence, states: Iterable[Mapping[str, Any]], seconds: list[tuple[Any, ...]]
) -> Iterator[Finding]:
    """`states` are the writes to the keeper, `seconds` what files of the ledger say about each second."""
    manifest = evidence.manifest
    began, ended = manifest.load_started_us, manifest.load_ended_us
    for finding in (*_by_state(context, states), *_by_death(context), *_by_silence(seconds)):
        assert finding.time_us is not None
        over = began is not None and finding.until_us is not None and finding.until_us <= began
        later = ended is not None and finding.time_us >= ended
        if not over and not later:
            yield finding


def _window(
    part: int, circumstance: Circumstance, since: int, until: int | None, told: Phrase, **more: Any
) -> Finding:
    return Finding(
        "unavailable",
        NOTICE,
        part,
        time_us=since,
        until_us=until,
        detail=told,
        circumstance=circumstance,
        **more,
    )


def _by_state(context: Context, states: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """States that follow each other and are alike are one window; one that nothing ends has no end."""
    numbers = {part.place: part.number for part in context.parts}
    by_part: dict[int, list[Mapping[str, Any]]] = {}
    for row in states:
        number = numbers.get((row["topic"], row["partition"]))
        if number is not None:
            by_part.setdefault(number, []).append(row)
    for number, rows in sorted(by_part.items()):
        least = context.parts[number].min_insync
        rows.sort(key=lambda row: (row["partition_version"] or 0, row["time_ms"]))
        kinds = [_kind(row, least) for row in rows]
        begin = 0
        for at in range(1, len(rows) + 1):
            if at < len(rows) and kinds[at] == kinds[begin]:
                continue
            kind = kinds[begin]
            if kind is not None:
                told = _WORDS.get(kind, Phrase.of("detail.too_few_in_sync", least=least))
                epoch = min(row["leader_epoch"] for row in rows[begin:at] if row["leader_epoch"] is not None)
                since = min(row["time_ms"] for row in rows[begin:at]) * 1000
                until = rows[at]["time_ms"] * 1000 if at < len(rows) else None
                yield _window(number, kind, since, until, told, leader_epoch=epoch)
            begin = at


def _kind(row: Mapping[str, Any], least: int) -> Circumstance | None:
    if row["leader"] is not None and row["leader"] < 0:
        return Circumstance.NO_LEADER
    return Circumstance.TOO_FEW_IN_SYNC if len(row["isr"] or ()) < least else None


def _by_death(context: Context) -> Iterator[Finding]:
    """Killed leaders, until the next leads: the keeper learns of a death only when a session expires."""
    for number, history in sorted(context.histories.items()):
        for death in context.deaths:
            before = [e for e in history.elections if e.at_us <= death.at_us]
            if not before or before[-1].broker != death.broker:
                continue
            after = next((e.at_us for e in history.elections if e.at_us > death.at_us), None)
            told = Phrase.of("detail.leader_down", broker=death.broker, fault=death.kind)
            yield _window(
                number,
                Circumstance.LEADER_DOWN,
                death.at_us,
                after,
                told,
                broker=death.broker,
                leader_epoch=before[-1].epoch,
            )


def _by_silence(seconds: list[tuple[Any, ...]]) -> Iterator[Finding]:
    """From the acknowledgements: the first after a silence had waited through it, so it was not a lack of
    load. A silence of a second lies between two different seconds; so each second is summed up first."""
    listed = [each for each in seconds if each and len(each[0])]
    if not listed:
        return
    key, first, last, waited = (np.concatenate([each[n] for each in listed]) for n in range(4))
    order = np.lexsort((waited, first, key))
    key, first, last, waited = key[order], first[order], last[order], waited[order]
    begin = starts_of(key)
    last = np.maximum.reduceat(last, begin)
    key, first, waited = key[begin], first[begin], waited[begin]
    since = np.maximum(last[:-1], waited[1:])
    silent = (key[1:] >> 40 == key[:-1] >> 40) & (first[1:] - since >= SILENCE_US)
    for at in np.flatnonzero(silent).tolist():
        yield _window(
            int(key[at + 1] >> 40),
            Circumstance.SILENCE,
            int(since[at]),
            int(first[at + 1]),
            _WORDS[Circumstance.SILENCE],
        )
