"""The summary of a trial without an audit, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tidelog.cli.errors import ExitCode
from tidelog.cli.show import palette
from tidelog.cli.show.output import console, counted, write_json, write_lines

if TYPE_CHECKING:
    from tidelog.evidence.folder import EvidenceFolder
    from tidelog.trials.closing import Closing

_LABEL = 12
_EXAMPLES = 3


def check_quickly(folder: EvidenceFolder, notes: list[str], *, as_json: bool) -> ExitCode:
    """Look for lost records in the final read, and print the summary."""
    from tidelog.trials.closing import close

    closing = close(folder)
    present(closing, folder, notes, as_json=as_json)
    if not closing.checked:
        return ExitCode.REFUSED
    return ExitCode.HELD if closing.held else ExitCode.VIOLATED


def present(closing: Closing, folder: EvidenceFolder, notes: list[str], *, as_json: bool) -> None:
    if as_json:
        manifest = folder.manifest
        more = {"generation": manifest.generation, "seed": manifest.seed, "evidence": str(folder.path)}
        write_json(more | closing.as_json() | {"notes": notes})
        return
    write_lines(console(), summary(closing, folder, notes))


def summary(closing: Closing, folder: EvidenceFolder, notes: list[str]) -> list[Text]:
    manifest = folder.manifest
    where = f"generation {manifest.generation}" if manifest.generation else "existing Kafka cluster"
    lines = [
        _line("trial", f"{where} · {closing.seconds:.1f} s · seed {manifest.seed} · {closing.state}"),
        _line("sends", f"{closing.sent:,} ({closing.rate:,.0f}/s) · {_outcomes(closing)}"),
    ]
    if closing.latency_ms:
        latency = " · ".join(f"{name} {ms:,.1f} ms" for name, ms in closing.latency_ms.items())
        lines.append(_line("latency", latency))
    if closing.errors:
        shown = list(closing.errors.items())[:_EXAMPLES]
        lines.append(_line("errors", " · ".join(f"{name} {count:,}" for name, count in shown)))
    reads = " · ".join(f"{name} {count:,}" for name, count in sorted(closing.reads.items()))
    lines.append(_line("reads", reads or "none"))
    faults = " · ".join(f"{kind} {count}" for kind, count in closing.faults.items())
    lines.append(_line("faults", faults or "none"))
    lines.append(_line("unavailable", _windows(closing)))
    lines += _losses(closing)
    lines += [_line("note", note, palette.WARNING) for note in notes]
    lines += [
        _line("missing", f"{entry['what']}: {entry['why']}", palette.WARNING)
        for entry in closing.missing
        if manifest.stage != "foreign" or entry["what"] not in ("events", "replicas", "faults")
    ]
    lines.append(_line("evidence", f"in {folder.path}", palette.STRONG))
    return lines


def _line(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((label.ljust(_LABEL), palette.FAINT), (text, style))


def _outcomes(closing: Closing) -> str:
    return f"{closing.ok:,} ok · {closing.failed:,} failed · {closing.unknown:,} unknown"


def _windows(closing: Closing) -> str:
    if not closing.unavailable:
        return "no outage over 1 s"
    longest = max(closing.unavailable, key=lambda window: window.duration_ms)
    return (
        f"{counted(len(closing.unavailable), 'outage')}, the longest {longest.duration_ms / 1000:.1f} s "
        f"(partition {longest.partition}, {longest.from_ms / 1000:.1f} s into the load)"
    )


def _losses(closing: Closing) -> list[Text]:
    if not closing.sent:
        return [_line("lost", "not checked: no producer sent a record", palette.WARNING)]
    if not closing.checked:
        return [_line("lost", "unknown: the final log could not be read", palette.WARNING)]
    lines = []
    if closing.lost:
        by_acks = ", ".join(f"acks={acks}: {count:,}" for acks, count in sorted(closing.lost_by_acks.items()))
        lines.append(
            _line("lost", f"{counted(closing.lost, 'acknowledged record')} ({by_acks})", palette.BAD)
        )
        for example in closing.lost_examples[:_EXAMPLES]:
            at = f"partition {example['partition']}, offset {example['offset']}"
            lines.append(_line("", f"{example['value']} was acknowledged at {at}"))
    else:
        lines.append(_line("lost", "none: every acknowledged record is in the final log", palette.GOOD))
    if closing.duplicated:
        examples = ", ".join(closing.duplicated_examples[:_EXAMPLES])
        words = f"{closing.duplicated:,} duplicates from idempotent producers, for example {examples}"
        lines.append(_line("", words, palette.WARNING))
    if closing.repeated:
        lines.append(_line("", f"{closing.repeated:,} duplicates from retries"))
    if closing.unconfirmed_missing:
        lines.append(
            _line("", f"{closing.unconfirmed_missing:,} sent with acks=0 did not arrive, or were lost")
        )
    return lines
