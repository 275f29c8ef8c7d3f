"""The comment above a step: passages, each with the generations that it is true under, and what it claims.

::

    # The leader dies, and the controller elects broker 1.
    # [hw,kip101 error=6] The consumer hears NOT_LEADER_OR_FOLLOWER.
    # [epoch error=75] The consumer hears UNKNOWN_LEADER_EPOCH.

A marker in brackets begins a passage; without a generation (or with ``all``) it belongs to every one. A claim
is about the *chapter* of the comment: its step and those below it up to the next comment. A passage is shown
only in runs of its generations in which all its claims are true (``claims.py``): so no narration promises
what does not happen. A bracket that begins with anything but a letter is ordinary text.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.faults.step import EVERY_GENERATION, Claim, Passage
from tidelog.scenario.claims import CLAIMS
from tidelog.scenario.grammar import generations
from tidelog.scenario.line import Line, did_you_mean

_WIDTH = 100


def comment_line(origin: str, number: int, raw: str) -> Line:
    """The words of a comment, without the ``#`` but in their columns."""
    return Line(origin, number, raw.replace("#", " ", 1))


def parse_narration(lines: Sequence[Line]) -> tuple[Passage, ...]:
    found: list[Passage] = []
    for line in lines:
        begins = line.word(0)[:1] == "[" and line.word(0)[1:2].isalpha()
        text_at, passage = _marked(line) if begins else (0, Passage(""))
        text = " ".join(line.words[text_at:])
        if begins or not found:
            found.append(Passage(text, passage.generations, passage.claims))
        elif text:
            last = found[-1]
            found[-1] = Passage(f"{last.text} {text}".strip(), last.generations, last.claims)
    return tuple(passage for passage in found if passage.text)


def _marked(line: Line) -> tuple[int, Passage]:
    """Where the text begins, and what is in the brackets before it."""
    ends = [index for index, word in enumerate(line.words) if word.endswith("]")]
    if not ends:
        raise line.error(len(line.words), "] after the generations and claims of this passage")
    words = [word.strip("[]") for word in line.words[: ends[0] + 1]]
    bare = line.with_words(words)
    under: tuple[str, ...] = ()
    claims: list[Claim] = []
    for index, word in enumerate(words):
        if "=" in word:
            claims.append(_claim(bare, index))
        elif index == 0:
            under = generations(bare, index)
        else:
            raise bare.error(index, "a claim like error=75")
    return ends[0] + 1, Passage("", () if under == (EVERY_GENERATION,) else under, tuple(claims))


def _claim(line: Line, index: int) -> Claim:
    name, _, value = line.words[index].partition("=")
    denied, name = name.endswith("!"), name.removesuffix("!")
    if name not in CLAIMS:
        raise line.error(index, f"a claim out of {', '.join(CLAIMS)}{did_you_mean(name, CLAIMS)}")
    if not CLAIMS[name].reads(value):
        raise line.error(index, CLAIMS[name].expected)
    return Claim(name, value, denied)


def print_narration(narration: Sequence[Passage]) -> list[str]:
    lines = []
    for number, passage in enumerate(narration):
        marker = passage.marker(first=number == 0)
        lines += wrap_comment(passage.text, marker)
    return lines


def wrap_comment(text: str, marker: str = "") -> list[str]:
    lines, current = [], f"# {marker}" if marker else "#"
    for word in text.split():
        if len(current) + len(word) + 1 > _WIDTH and current != "#":
            lines.append(current)
            current = "#"
        current += " " + word
    return [*lines, current]
