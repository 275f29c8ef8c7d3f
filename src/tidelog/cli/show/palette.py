"""Colours. No information is in a colour alone; the text has it too.

Epochs use the palette of Okabe and Ito, which is safe for all kinds of colour blindness. The colours are
backgrounds under black text, so they work on dark and light terminals.
"""

from __future__ import annotations

_EPOCHS = ("#56b4e9", "#e69f00", "#cc79a7", "#f0e442", "#009e73", "#d55e00")
_NEUTRAL = "#bbbbbb"

GOOD = "green"
BAD = "bold red"
WARNING = "yellow"
FAINT = "dim"
STRONG = "bold"
COMMAND = "bold cyan"
WATERMARK = "bold"


def of_epoch(epoch: int | None) -> str:
    """The style of a record written in that epoch; None where records carry no epoch."""
    colour = _NEUTRAL if epoch is None else _EPOCHS[epoch % len(_EPOCHS)]
    return f"#000000 on {colour}"


def of_broker(number: int) -> str:
    """The style of a broker's name in a log. A broker always has the same one."""
    return _EPOCHS[number % len(_EPOCHS)]


def of_level(level: str) -> str:
    """The style of a line of a log."""
    return {"DEBUG": FAINT, "INFO": "", "WARN": WARNING, "WARNING": WARNING}.get(level, BAD)


def of_state(state: str) -> str:
    return {"leader": STRONG, "down": BAD, "paused": WARNING}.get(state, "")
