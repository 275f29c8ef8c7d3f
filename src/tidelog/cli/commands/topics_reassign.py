"""``tidelog topics reassign``: move partitions to other brokers, at a limited rate if wanted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidelog.cli.options import ServersOption, TopicArgument, admin_of
from tidelog.cli.parameters import topics as given
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal
from tidelog.narrate.numbers import counted

if TYPE_CHECKING:
    from tidelog.kafka_client.admin import Admin, TopicView

_RATE = re.compile(r"([1-9][0-9]{0,14})([kMG]?)")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def reassign(
    name: TopicArgument,
    *,
    brokers: given.BrokersOption = None,
    partition: given.MovedOption = None,
    cancel: given.CancelOption = False,
    throttle: given.ThrottleOption = None,
    unthrottle: given.UnthrottleOption = False,
    wait_seconds: given.WaitOption = 60,
    bootstrap_servers: ServersOption = None,
) -> None:
    """Move partitions to other brokers. Old replicas are deleted when all new ones are in sync.

    With --throttle the brokers copy no faster; replicas in sync are not slowed down. The throttle is removed
    when the partitions have moved.

    Example: tidelog topics reassign events -r 1,2,3 --throttle 10M
    """
    _require_one(brokers=brokers, cancel=cancel, throttle=throttle, unthrottle=unthrottle)
    target = None if brokers is None else _brokers(brokers)
    rate = None if throttle is None else _rate(throttle)
    with admin_of(bootstrap_servers) as admin:
        if unthrottle:
            _unthrottle(admin, name)
            return
        topics = admin.topics([name])
        admin.add_moves(topics)
        moving = [part.number for part in topics[0].partitions if part.adding or part.removing]
        chosen = partition or (moving if target is None else [part.number for part in topics[0].partitions])
        if not chosen:
            raise Refusal(f"no partition of {name} is being moved")
        throttled = [] if rate is None else _throttle(admin, topics[0], chosen, target, rate)
        if target is not None or cancel:
            _begin(admin, name, chosen, target, throttled=bool(throttled))
        if throttled:
            numbers = ",".join(map(str, throttled))
            write_text(
                f"throttled {name}: {rate:,} bytes a second from and to each of the brokers {numbers}\n"
            )
        moved = not wait_seconds or admin.wait_until_moved(name, dict.fromkeys(chosen, target), wait_seconds)
        what = f"{counted(len(chosen), 'partition')} of {name}"
        if not moved:
            write_text(f"{what} still moving: see tidelog topics describe {name}\n")
        elif cancel:
            write_text(f"cancelled the move of {what}\n")
        else:
            where = "" if brokers is None else f" to {brokers}"
            write_text(f"{'moved' if wait_seconds else 'moving'} {what}{where}\n")
        if throttled and moved and wait_seconds:
            _unthrottle(admin, name)
        elif throttled:
            write_text(f"then remove the throttle: tidelog topics reassign {name} --unthrottle\n")


def _require_one(*, brokers: str | None, cancel: bool, throttle: str | None, unthrottle: bool) -> None:
    if not (brokers or cancel or throttle or unthrottle):
        raise Refusal("nothing to do: give either --replicas N,N… or --cancel")
    if brokers and cancel:
        raise Refusal("two things to do: give either --replicas N,N… or --cancel")
    if cancel and throttle:
        raise Refusal("--throttle is for moves: leave it out with --cancel")
    if unthrottle and (brokers or cancel or throttle):
        raise Refusal("--unthrottle stands alone: it removes the throttle of moves")


def _begin(admin: Admin, name: str, chosen: list[int], target: list[int] | None, *, throttled: bool) -> None:
    from tidelog.kafka_client import throttles
    from tidelog.kafka_client.admin import Refused

    try:
        admin.reassign(name, dict.fromkeys(chosen, target))
    except Refused:
        if throttled:
            throttles.unthrottle(admin, name)
        raise


def _throttle(
    admin: Admin, topic: TopicView, chosen: list[int], target: list[int] | None, rate: int
) -> list[int]:
    """Returns the brokers that are throttled."""
    from tidelog.kafka_client import throttles

    moves = {} if target is None else dict.fromkeys(chosen, target)
    return throttles.throttle(admin, topic, moves, rate)


def _unthrottle(admin: Admin, name: str) -> None:
    from tidelog.kafka_client import throttles

    others = throttles.unthrottle(admin, name)
    kept = f"; the brokers keep their rates for {', '.join(others)}" if others else ""
    write_text(f"removed the throttle of {name}{kept}\n")


def _brokers(given: str) -> list[int]:
    try:
        return [int(number) for number in given.split(",")]
    except ValueError:
        raise Refusal(f"--replicas: brokers' numbers like 1,2,3, and not {given!r}") from None


def _rate(given: str) -> int:
    found = _RATE.fullmatch(given)
    if found is None:
        raise Refusal(f"--throttle: bytes a second like 500000, 500k or 10M, and not {given!r}")
    return int(found[1]) * _UNITS[found[2]]
