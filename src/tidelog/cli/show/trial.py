"""The summary of a trial without an audit, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tidelog.cli.errors import ExitCode
from tidelog.cli.show import palette
from tidelog.cli.show.output import console, write_json, write_lines
from tidelog.narrate.numbers import counted

if TYPE_CHECKING:
    from tidelog.evidence.folder import EvidenceFolder
    from tidelog.trials.summary import TrialSummary

_LABEL = 12
_EXAMPLES = 3


def check_quickly(folder: EvidenceFolder, notes: list[str], *, as_json: bool) -> ExitCode:
    """Look for lost records in the final read, and print the summary."""
    from tidelog.trials.summary import summarize

    found = summarize(folder)
    if as_json:
        manifest = folder.manifest
        more = {"generation": manifest.generation, "seed": manifest.seed, "evidence": str(folder.path)}
        write_json(more | found.as_json() | {"notes": notes})
    else:
        write_lines(console(), summary(found, folder, notes))
    if not found.checked:
        return ExitCode.REFUSED
    return ExitCode.HELD if found.held else ExitCode.VIOLATED


def summary(found: TrialSummary, folder: EvidenceFolder, notes: list[str]) -> list[Text]:
    manifest = folder.manifest
    where = f"generation {manifest.generation}" if manifest.generation else "existing Kafka cluster"
    lines = [
        _line("trial", f"{where} · {found.seconds:.1f} s · seed {manifest.seed} · {found.state}"),
        _line("sends", f"{found.sent:,} ({found.rate:,.0f}/s) · {_outcomes(found)}"),
    ]
    if found.latency_ms:
        latency = " · ".join(f"{name} {ms:,.1f} ms" for name, ms in found.latency_ms.items())
        lines.append(_line("latency", latency))
    if found.errors:
        shown = list(found.errors.items())[:_EXAMPLES]
        lines.append(_line("errors", " · ".join(f"{name} {count:,}" for name, count in shown)))
    reads = " · ".join(f"{name} {count:,}" for name, count in sorted(found.reads.items()))
    lines.append(_line("reads", reads or "none"))
    lines.append(_line("faults", faults_line(found.faults, len(manifest.schedule))))
    lines.append(_line("unavailable", _windows(found)))
    lines += _losses(found)
    lines += [_line("note", note, palette.WARNING) for note in notes]
    lines += [
        _line("missing", f"{entry['what']}: {entry['why']}", palette.WARNING)
        for entry in found.missing
        if manifest.stage != "foreign" or entry["what"] not in ("events", "replicas", "faults")
    ]
    lines.append(_line("evidence", f"in {folder.path}", palette.STRONG))
    return lines


def _line(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((label.ljust(_LABEL), palette.FAINT), (text, style))


def faults_line(done: Mapping[str, int], planned: int) -> str:
    """How many of each kind were done, and how many were planned and not done."""
    listed = [f"{kind} {count}" for kind, count in done.items()]
    if (left := planned - sum(done.values())) > 0:
        listed.append(f"{left} planned not done")
    return " · ".join(listed) or "none"


def _outcomes(found: TrialSummary) -> str:
    return f"{found.ok:,} ok · {found.failed:,} failed · {found.unknown:,} unknown"


def _windows(found: TrialSummary) -> str:
    if not found.unavailable:
        return "no outage over 1 s"
    longest = max(found.unavailable, key=lambda window: window.duration_ms)
    return (
        f"{counted(len(found.unavailable), 'outage')}, the longest {longest.duration_ms / 1000:.1f} s "
        f"(partition {longest.partition}, {longest.from_ms / 1000:.1f} s into the load)"
    )


def _losses(found: TrialSummary) -> list[Text]:
    if not found.has_ledger:
        words = "unknown: there is no ledger (no producer sent a record, or it is missing)"
        return [_line("lost", words, palette.WARNING)]
    if not found.sent:
        return [_line("lost", "not checked: no producer sent a record", palette.WARNING)]
    if not found.checked:
        return [_line("lost", "unknown: the final log could not be read", palette.WARNING)]
    lines = []
    if found.lost:
        by_acks = ", ".join(f"acks={acks}: {count:,}" for acks, count in sorted(found.lost_by_acks.items()))
        lines.append(_line("lost", f"{counted(found.lost, 'acknowledged record')} ({by_acks})", palette.BAD))
        for example in found.lost_examples[:_EXAMPLES]:
            at = f"partition {example['partition']}, offset {example['offset']}"
            lines.append(_line("", f"{example['value']} was acknowledged at {at}"))
    else:
        lines.append(_line("lost", "none: every acknowledged record is in the final log", palette.GOOD))
    if found.duplicated:
        examples = ", ".join(found.duplicated_examples[:_EXAMPLES])
        words = f"{found.duplicated:,} duplicates from idempotent producers, for example {examples}"
        lines.append(_line("", words, palette.WARNING))
    if found.repeated:
        lines.append(_line("", f"{found.repeated:,} duplicates from retries"))
    if found.unconfirmed_missing:
        lines.append(
            _line("", f"{found.unconfirmed_missing:,} sent with acks=0 did not arrive, or were lost")
        )
    return lines
