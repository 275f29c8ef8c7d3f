"""A test that gives its machine an interface does that in a network of its own: browsers of other tests drop
their connections when an address comes or goes (ERR_NETWORK_CHANGED)."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_NETWORK = 0x40000000
_C = ctypes.CDLL(None, use_errno=True)


@contextmanager
def own_network() -> Iterator[None]:
    """For this thread and the processes that it starts meanwhile. Needs root."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _checked(_C.unshare(_NEW_NETWORK))
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            _checked(_C.setns(before, _NEW_NETWORK))
    finally:
        os.close(before)


def interfaces() -> set[str]:
    """Of the network in which this thread is."""
    return {name for _, name in socket.if_nameindex()}


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
