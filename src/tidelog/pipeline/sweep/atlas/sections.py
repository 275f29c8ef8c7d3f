"""The parts of the atlas that are neither map nor choice: its head, the questions, what was left out, how to
make it again."""

from __future__ import annotations

from tidelog.pipeline.report.html import Cell, Markup, el, join, numbers
from tidelog.pipeline.report.html import table as html_table
from tidelog.pipeline.sweep.atlas.table import AtlasTable
from tidelog.pipeline.sweep.intervals import percent
from tidelog.pipeline.sweep.questions import SweepAnswer, answers
from tidelog.pipeline.sweep.summary import excludes_loss


def head_section(table: AtlasTable) -> Markup:
    atlas = table.atlas
    counts = [count for count in atlas.counts if count.exercised]
    harmed = [count for count in counts if count.harmed]
    failed = [count for count in counts if count.unexpected]
    least = min((count.judged for count in counts if count not in harmed), default=0)
    safe = len(counts) - len(harmed)
    more = (
        f"The other {safe} never did, each in {least:,} trials or more: below {percent(3 / least)}, with "
        "95 % certainty."
        if least
        else "None of them never did."
    )
    return el(
        "header",
        el("p", "tidelog · atlas of simulated failures", class_="eyebrow"),
        el(
            "div",
            el("h1", f"{len(harmed)} of {len(counts)} cells lost or changed a promised record"),
            el("p", more),
            el("p", _expectation(len(failed), sum(excludes_loss(count.cell) for count in counts))),
            class_="verdict violated" if failed else "verdict",
        ),
        el("ul", [el("li", words) for words in table.common()], class_="settings"),
        _numbers(table),
    )


def _expectation(failed: int, sound: int) -> str | None:
    if failed:
        return f"Unexpected: in {failed} of {sound} cells the rules exclude that, and it happened."
    return f"In {sound} of these cells the rules exclude it, and it never happened there." if sound else None


def _numbers(table: AtlasTable) -> Markup:
    atlas = table.atlas
    counts = atlas.counts
    sent = sum(count.measures.get("sent", 0) for count in counts)
    acknowledged = sum(count.measures.get("acknowledged", 0) for count in counts)
    lost = sum(count.records.get("lost", 0) for count in counts)
    unknown = sum(not count.exercised for count in counts)
    broken = sum(count.outcomes.get(name, 0) for count in counts for name in ("stuck", "crashed"))
    late = sum(count.outcomes.get("unrecovered", 0) for count in counts)
    facts = [
        ("trials", f"{atlas.trials:,}", f"{len(counts)} cells × {atlas.seeds:,} seeds"),
        ("records sent", f"{sent:,}", f"{acknowledged:,} acknowledged"),
        ("records lost", f"{lost:,}", "acknowledged, and gone"),
        ("cells unknown", f"{unknown:,}", "none of their faults came about"),
        ("not judged", f"{broken:,}", f"stuck or crashed; {late:,} more did not recover"),
    ]
    return numbers(facts)


def questions_section(table: AtlasTable) -> Markup | None:
    told = answers(table.atlas.counts)
    if not told:
        return None
    return el(
        "section",
        el("h2", "The questions, answered by this atlas"),
        [_answer(one) for one in told],
        id="questions",
    )


def _answer(answer: SweepAnswer) -> Markup:
    def cells(row: tuple[str, ...]) -> list[str | Cell]:
        return [row[0], *(Cell(words, "n") for words in row[1:])]

    rows = map(cells, answer.rows)
    return join(el("h3", answer.question), el("p", answer.sentence), html_table(cells(answer.columns), rows))


def left_out_section(table: AtlasTable) -> Markup | None:
    grid = table.atlas.grid
    if not grid.dropped and not grid.same_as:
        return None
    reasons: dict[str, int] = {}
    for dropped in grid.dropped:
        reasons[dropped.reason] = reasons.get(dropped.reason, 0) + 1
    lines = [
        el("li", f"{count} {'combination' if count == 1 else 'combinations'}: {reason}")
        for reason, count in reasons.items()
    ]
    if grid.same_as:
        lines.append(
            el(
                "li",
                f"{len(grid.same_as)} combinations differ from another only in a setting that cannot matter "
                "there (flush without a loss of power, in-sync replicas under majority or with acks=1), and "
                "share its trials",
            )
        )
    return el("section", el("h2", "What was left out"), el("ul", lines), id="left-out")


def again_section(table: AtlasTable) -> Markup:
    atlas = table.atlas
    command = atlas.command or "tidelog sweep"
    return el(
        "section",
        el("h2", "Make it again"),
        el(
            "p",
            "A cell and a seed name a trial, which plays the same everywhere. The same command goes on where "
            "it was interrupted, and --seeds with a larger number adds trials to those that are there.",
        ),
        el("pre", f"{command}\n{command} --seeds {atlas.seeds * 10}"),
        el("p", f"Rules {atlas.rules}: a sum of the sources that decide how a trial goes.", class_="soft"),
        id="again",
    )
