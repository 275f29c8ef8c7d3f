"""A run as text: the cluster, each step with its events, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from tidelog.cli.show import palette, replicas
from tidelog.cli.show.lines import box, wrap
from tidelog.core.events import Truncated
from tidelog.narrate.clients import remark_words
from tidelog.narrate.events import notable, spoken
from tidelog.narrate.inside import inside_lines
from tidelog.narrate.verdict import findings, headline, is_bad, outcome
from tidelog.scenario.clients.events import Acknowledged, RecordRead, SendFailed
from tidelog.scenario.head import describe_topic
from tidelog.scenario.run import Played, Run
from tidelog.scenario.scenario import Scenario, describe_client
from tidelog.scenario.snapshot import Snapshot
from tidelog.scenario.violations import Grade

_PAGE_WIDTH_MAX = 110
"""Longer lines of prose are hard to read."""
_INDENT = 5
_MARKED = (
    "LEO is the offset of the next record; remote 1:2 is the LEO of follower 1 as its leader knows it. "
    "* marks what a step changed."
)
_CHECKPOINT = (
    "Of a broker that is down you see its disk: HW is the one in its checkpoint file, which is above LEO if "
    "records below it were lost."
)
_MARKS: dict[type, tuple[str, str]] = {
    Acknowledged: ("✓ ", palette.GOOD),
    SendFailed: ("✗ ", palette.BAD),
    RecordRead: ("» ", palette.GOOD),
    Truncated: ("! ", palette.WARNING),
}


def page_width(screen: Console) -> int:
    return max(min(screen.width, _PAGE_WIDTH_MAX), 40)


def account(screen: Console, run: Run, *, detail: bool = False) -> list[Text]:
    """The whole run as lines for ``screen``. ``detail``: also what goes on inside brokers, keeper and
    clients."""
    width = page_width(screen)
    marked = f"{_MARKED} {_CHECKPOINT}" if _shows_checkpoint_above_log(run) else _MARKED
    lines = opening(screen, run.scenario, [run.scenario.setup.generation], width, marked)
    if run.stage != "sim":
        lines += [Text(f"Played on {run.scenario.setup.brokers} broker processes."), Text()]
    before: Snapshot | None = None
    for number, played in enumerate(run.played):
        lines += paragraph(screen, " ".join(run.narration(number)), width)
        lines += _step(screen, number, played, before, width, detail=detail)
        before = played.after
    lines.append(Text())
    lines += box(headline(run), verdict_lines(screen, run, width - 4), width, style_of(run))
    return without_gaps(lines)


def _shows_checkpoint_above_log(run: Run) -> bool:
    partitions = (partition for played in run.played for partition in played.after.partitions)
    return any(r.process == "down" and r.hw > r.leo for partition in partitions for r in partition.replicas)


def without_gaps(lines: list[Text]) -> list[Text]:
    """Merge consecutive blank lines, and remove those at the start."""
    return [line for number, line in enumerate(lines) if line.plain or (number and lines[number - 1].plain)]


# ---------------------------------------------------------------- the head


def opening(
    screen: Console, scenario: Scenario, generations: list[str], width: int, marked: str
) -> list[Text]:
    """The head of the output: the scenario and a legend. ``marked`` explains the marks in the margin."""
    from tidelog.core.generations import GENERATIONS

    setup = scenario.setup
    lines = wrap(screen, Text(scenario.title or scenario.name, palette.STRONG), width)
    facts = [("scenario", scenario.name)]
    if scenario.source:
        facts.append(("source", scenario.source))
    facts += [("rules", f"{name}, {GENERATIONS[name].summary}") for name in generations]
    zones = ", ".join(f"{broker} in {setup.zone(broker)}" for broker in range(setup.brokers))
    facts.append(("brokers", f"{zones}; controller {setup.controller}"))
    if setup.without:
        facts.append(("without", ", ".join(setup.without)))
    facts += [("topic", f"{describe_topic(topic)} (the first replica leads)") for topic in setup.topics]
    facts += [("client", describe_client(client)) for client in scenario.clients]
    for key, value in facts:
        lines += wrap(screen, value, width, marker=f"{key:<9} ")
    stamped = any(GENERATIONS[generation].stamps_epochs for generation in generations)
    return [*lines, Text(), *_legend(screen, marked, width, stamped=stamped), Text()]


def _legend(screen: Console, marked: str, width: int, *, stamped: bool) -> list[Text]:
    epochs = " c₁ is the record c, written in leader epoch 1." if stamped else ""
    text = (
        "How to read the logs: records left of | are below the high watermark (HW), so they are committed "
        f"and consumers can read them.{epochs} {marked}"
    )
    return wrap(screen, Text(text, palette.FAINT), width)


# ---------------------------------------------------------------- the steps


def _step(
    screen: Console, number: int, played: Played, before: Snapshot | None, width: int, *, detail: bool
) -> list[Text]:
    lines = heading(screen, number, played, width)
    lines += remark(screen, played, width, _INDENT)
    events = notable([event for _, event in played.events], detail=detail)
    several = len(played.after.partitions) > 1
    lines += event_lines(screen, events, width, _INDENT, several=several)
    state = _state(played.after, before, width - _INDENT)
    lines += [Text(" " * _INDENT).append_text(line) for line in state]
    known = inside_lines(played.after, before, detail=detail) if before is not None or detail else []
    for line in known:
        lines += wrap(screen, Text(line, palette.FAINT if detail else ""), width, _INDENT, "· ")
    return [*lines, Text()] if events or state or known else lines


def heading(screen: Console, number: int, played: Played, width: int) -> list[Text]:
    """The number of the step and its command."""
    step = played.step
    if step is None:
        return [Text.assemble(f"{number:>3}  ", ("the cluster at the beginning", palette.COMMAND))]
    return wrap(screen, Text(str(step), palette.COMMAND), width, marker=f"{number:>3}  ")


def paragraph(screen: Console, narration: str, width: int) -> list[Text]:
    return [Text(), *wrap(screen, narration, width)] if narration else []


def remark(screen: Console, played: Played, width: int, indent: int = 0) -> list[Text]:
    """Remarks about a step that did not do what its command says. The events already have the records of a
    ``read``."""
    if not played.remarks or any(isinstance(event, RecordRead) for _, event in played.events):
        return []
    return wrap(screen, Text(remark_words(played.remarks), palette.WARNING), width, indent, "! ")


def event_lines(
    screen: Console, events: Sequence[object], width: int, indent: int = 0, *, several: bool = False
) -> list[Text]:
    """One line per event; repetitions are folded."""
    lines: list[Text] = []
    marked = [(spoken(event, several=several), *_MARKS.get(type(event), ("- ", ""))) for event in events]
    for (text, mark, style), group in groupby(marked):
        times = len(list(group))
        count = f" ({times} times)" if times > 1 else ""
        lines += wrap(screen, Text(text + count, style), width, indent, mark)
    return lines


def _state(after: Snapshot, before: Snapshot | None, width: int) -> list[Text]:
    """The replicas, if they changed."""
    lines: list[Text] = []
    for index, partition in enumerate(after.partitions):
        former = before.partitions[index] if before is not None else None
        line = replicas.partition_text(after, partition)
        rows = replicas.table(partition, former, width)
        if before is not None and former is not None:
            moved = line.plain != replicas.partition_text(before, former).plain
            if not moved and not any(row.plain.startswith("*") for row in rows):
                continue
            line = Text("* " if moved else "  ").append_text(line)
        else:
            line = Text("  ").append_text(line)
        lines += [line, *rows]
    return lines


# ---------------------------------------------------------------- the verdict


def style_of(run: Run) -> str:
    return palette.BAD if is_bad(run) else palette.GOOD


def verdict_lines(screen: Console, run: Run, width: int, *, short: bool = False) -> list[Text]:
    """The verdict below its headline. ``short`` leaves out the messages of broken invariants."""
    lines: list[Text] = []
    for kind, sentence in findings(run):
        lines += wrap(screen, Text(sentence, palette.BAD), width, marker=f"{kind:<11}")
    acknowledged = sum(1 for r in run.ledger if r.outcome is not None and r.outcome.value == "ok")
    lines += wrap(screen, f"{len(run.ledger)} sent, {acknowledged} acknowledged", width, marker="records    ")
    for broken, at in zip(run.broken, run.broken_at, strict=True):
        when = f"step {at}" if at < len(run.played) else "at the end"
        style = palette.BAD if broken.grade is Grade.DATA else palette.WARNING
        body = Text(f"{broken.name}, {when}", style)
        if not short:
            body = Text.assemble(body, ": ", broken.message)
        lines += wrap(screen, body, width, marker=_BROKEN[broken.grade])
    return lines + _expected(screen, run, width)


_BROKEN = {
    Grade.DATA: "broken     ",
    Grade.STRUCTURE: "weakened   ",
    Grade.LIVENESS: "unfinished ",
}
"""A guarantee about records; a rule whose violation can lead to loss; not (yet) recovered."""


def _expected(screen: Console, run: Run, width: int) -> list[Text]:
    expectation = run.scenario.expectation(run.scenario.setup.generation)
    surprises = run.surprises()
    if expectation is None and not surprises:
        return wrap(
            screen, Text("The scenario has no expectation for this generation.", palette.FAINT), width
        )
    if expectation is not None and not surprises:
        return wrap(screen, f"As the scenario expects: {outcome(expectation)}.", width)
    lines = wrap(screen, Text("NOT as the scenario expects:", palette.BAD), width)
    for surprise in surprises:
        lines += wrap(screen, surprise, width, marker="  ")
    return lines
