"""Error messages in answers, limited in length.

A message may quote what the client sent, and a client may send 32 KB as a name. In older versions a string
has at most 32,767 bytes, so an answer that quotes all of it could not be encoded.
"""

from __future__ import annotations

from typing import Final

_LENGTH_MAX: Final = 1_000


def brief(message: str | None) -> str | None:
    """The message, shortened in the middle if it is long: the end says what is wrong."""
    if message is None or len(message) <= _LENGTH_MAX:
        return message
    half = _LENGTH_MAX // 2
    return f"{message[:half]} … {message[-half:]}"
