"""Requests of clients that fail, or wait, because a test says so: `fail_next` and `hold`.

The rules are the brokers' own (`broker.interference`); here they get Kafka's names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.refusals import FAILABLE
from tidelog.cluster.active_fault import ActiveFault
from tidelog.cluster.cluster import Cluster
from tidelog.cluster.rules import DISCONNECT, FAIL, HOLD, Interfering
from tidelog.cluster.waits import WAIT_SECONDS, wait_until
from tidelog.errors import Refusal, unknown
from tidelog.wire.api import Api
from tidelog.wire.errors import ErrorCode

_DISCONNECT: Final = "DISCONNECT"


class RequestFault(ActiveFault):
    """Requests that go wrong."""

    left: Callable[[], int]
    """How many requests are still to fail."""

    def release(self) -> None:
        """Held requests go on, and later ones are not held."""
        self.heal()

    def wait_used(self, *, timeout_s: float = WAIT_SECONDS) -> None:
        """Until as many requests have failed as `times` says."""
        wait_until(lambda: f"{self.left()} to go" if self.left() else "", f"used: {self}", timeout_s)


def api_named(name: str) -> Api:
    """By Kafka's name, `Produce` or `PRODUCE` or `OffsetCommit`. Raises `Refusal`."""
    known = {api.name.replace("_", "").lower(): api for api in FAILABLE}
    found = known.get(name.replace("_", "").lower())
    if found is None:
        raise unknown("API", name, tuple(_title(api) for api in FAILABLE))
    return found


def fail_next(
    cluster: Cluster, api: str, error: str, times: int, *, after: bool, topic: str, client: str
) -> RequestFault:
    """Raises `Refusal` for names that there are not."""
    if int(times) < 1:
        raise Refusal(f"times={times}: give at least 1")
    codes = {code.name: code for code in ErrorCode if code is not ErrorCode.NONE}
    if error != _DISCONNECT and error not in codes:
        raise unknown("error", error, (*codes, _DISCONNECT))
    wanted = Interfering(
        kind=DISCONNECT if error == _DISCONNECT else FAIL,
        api=api_named(api),
        error=codes.get(error, ErrorCode.NONE),
        after=after,
        times=int(times),
        client=client,
        topic=topic,
    )
    words = [_title(api_named(api)), error, f"{times}x", *(["after_append"] if after else [])]
    return _begun(cluster, "fail_next", words, wanted)


def hold(cluster: Cluster, api: str, *, topic: str, client: str) -> RequestFault:
    wanted = Interfering(kind=HOLD, api=api_named(api), client=client, topic=topic)
    return _begun(cluster, "hold", [_title(api_named(api))], wanted)


def _begun(cluster: Cluster, kind: str, words: list[str], wanted: Interfering) -> RequestFault:
    rules = cluster.supervisor.rules
    number = cluster.run(rules.add(wanted, cluster.supervisor.paused))
    left = rules.left

    def undo() -> None:
        cluster.run(rules.remove(number, cluster.supervisor.paused))

    fault = cluster.faults.begun(kind, words, undo, made=RequestFault)
    fault.left = lambda: left(number)
    return fault


def _title(api: Api) -> str:
    return api.name.title().replace("_", "")
