"""A run as JSON: every step in words, and the state after it."""

from __future__ import annotations

from typing import Any

from tidelog.evidence.event_schema import KINDS
from tidelog.narrate.clients import error_words, remark_words
from tidelog.narrate.events import narrate
from tidelog.scenario.clients.events import Acknowledged, Outcome, RecordRead, SendFailed, Sent
from tidelog.scenario.run import Played, Run
from tidelog.wire.errors import ErrorCode


def run_json(run: Run) -> dict[str, Any]:
    final = run.final.as_json()
    return {
        "scenario": run.scenario.name,
        "generation": run.scenario.setup.generation,
        "stage": run.stage,
        "verdict": run.verdict.as_json(),
        "acknowledged": [_entry(r) for r in run.ledger if r.outcome is Outcome.OK],
        "failed": [_entry(r) for r in run.ledger if r.outcome is not Outcome.OK],
        "partitions": final["partitions"],
        "controller": final["controller"],
        "controller_epoch": final["controller_epoch"],
        "live_brokers": final["live_brokers"],
        "invariants_broken": [
            {"invariant": b.name, "message": b.message, "step": at}
            for b, at in zip(run.broken, run.broken_at, strict=True)
        ],
        "as_expected": not run.surprises(),
        "surprises": run.surprises(),
        "steps": [_step_json(run, number, played) for number, played in enumerate(run.played)],
    }


def client_lines(played: Played) -> list[str]:
    """What clients learned during a step, a line for each answer and record."""
    kinds = (Acknowledged, SendFailed, RecordRead)
    return [narrate(event) for _, event in played.events if isinstance(event, kinds)]


def _entry(record: Sent) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "value": record.value,
        "producer": record.producer,
        "acks": "all" if record.acks == -1 else record.acks,
        "attempts": record.attempts,
    }
    if record.outcome is Outcome.OK:
        return {**entry, "offset": record.offset, "broker": record.broker}
    outcome = "pending" if record.outcome is None else record.outcome.value
    entry |= {"error": error_words(record.error), "outcome": outcome}
    if isinstance(record.error, ErrorCode):
        entry["base_offset"] = record.base_offset
    return entry


def _event_json(at: int, event: object) -> dict[str, Any]:
    """The sentence, and for events of brokers the facts, in the columns of evidence."""
    found: dict[str, Any] = {"at_ms": at, "text": narrate(event)}
    kind = KINDS.get(type(event))
    if kind is None:
        return found
    facts = zip(kind.sources, kind.read(event), strict=False)
    return {**found, "event": kind.name, **{column: fact for column, fact in facts if fact is not None}}


def _step_json(run: Run, number: int, played: Played) -> dict[str, Any]:
    return {
        "step": number,
        "command": str(played.step) if played.step is not None else "(start)",
        "narration": " ".join(run.narration(number)),
        "remark": remark_words(played.remarks),
        "told": client_lines(played),
        "events": [_event_json(at, event) for at, event in played.events],
        "state": played.after.as_json(),
    }
