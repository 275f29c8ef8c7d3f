"""Error messages: those in answers, limited in length, and the system's in a few words.

A message may quote what the client sent, and a client may send 32 KB as a name. In older versions a string
has at most 32,767 bytes, so an answer that quotes all of it could not be encoded.
"""

from __future__ import annotations

import os
from typing import Final

_LENGTH_MAX: Final = 1_000


def brief(message: str | None) -> str | None:
    """The message, shortened in the middle if it is long: the end says what is wrong."""
    if message is None or len(message) <= _LENGTH_MAX:
        return message
    half = _LENGTH_MAX // 2
    return f"{message[:half]} … {message[-half:]}"


def reason(error: Exception) -> str:
    """Why something failed. asyncio's messages of system errors repeat the address, and a time-out has none;
    for names that cannot be resolved errno says nothing."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if not isinstance(error, OSError):
        return str(error)
    known = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno or 0) if known else error.strerror or str(error)).lower()
