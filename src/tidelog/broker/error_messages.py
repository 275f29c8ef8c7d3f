"""What an answer says in words besides its error code: no longer than a reader needs.

Such words may quote what the client sent, and a client may send 32 KB where a name is expected. In older
versions a text has no more than 32,767 bytes, so an answer that quotes all of it could not be sent.
"""

from __future__ import annotations

from typing import Final

_LENGTH_MAX: Final = 1_000


def brief(message: str | None) -> str | None:
    """The message, cut if it is long. Its end, which says what is wrong, is kept."""
    if message is None or len(message) <= _LENGTH_MAX:
        return message
    half = _LENGTH_MAX // 2
    return f"{message[:half]} … {message[-half:]}"
