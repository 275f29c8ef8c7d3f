"""The commands of a scenario: words of one line to a ``Step`` and back, with errors that say what to write.

===================================  ====================================================================
``produce CLIENT VALUE…``            send records one after the other, wait until each is answered
``send CLIENT VALUE…``               send records, wait for nothing
``send CLIENT->N VALUE…``            send them to broker N, leader or not; ``produce`` likewise
``read CLIENT``                      one poll of a consumer, wait for its end
``poll CLIENT``                      start a poll, wait for nothing
``crash|restart|pause|resume N…``    kill -9, start, SIGSTOP, SIGCONT
``power-off N…``                     as crash, and what was not synced is gone
``stop N``                           orderly shutdown, leadership moves first
``sync N…``                          the disk of N writes everything down
``cut A B``, ``cut A -> B``          cut links between zones or nodes, both ways or one way
``isolate ZONE``                     cut a zone from all others
``heal [A B]``                       mend those links, or all
``reset A B``                        connections between two brokers break and are opened again
``delay A B DURATION``               messages between A and B take that much longer
``keeper-stop|keeper-start N``       a member of the keeper
``elect-preferred``                  ask for the preferred leader
``configure TOPIC KEY=VALUE``        change a topic's settings
``reassign TOPIC N,N…``              move the topic to these brokers, the first of which leads
``reassign TOPIC cancel``            cancel the move
``delete-topic TOPIC``               delete a topic; what it was sent so far is promised no longer
``create-topic TOPIC N,N…``          create it again on these brokers, the first of which leads
``delete /controller``               delete the controller's node in the keeper: a new election
``hold CHANNEL A->B``, ``hold all``  messages wait in the network; ``release`` lets them go
``deliver CHANNEL A->B``             exactly one message arrives, held or not
``drop CHANNEL A->B``                exactly one message is lost
``tick``                             time passes to the next timer
``advance DURATION``                 time passes
``settle``                           everything in flight that is not held arrives
``wait CONDITION [within DURATION]`` time passes until it holds
===================================  ====================================================================

A deleted topic has no replicas: ``wait replicas none``.

A wait that times out makes the run fail. ``wait … times-out GENERATION,…`` expects it under these
generations, ``times-out all`` under all of them: there the run fails if the condition does come true.

Conditions: ``leader N|none``, ``epoch N``, ``isr N,N``, ``replicas N,N`` (and no move is under way),
``controller N``, ``registered N``, ``unregistered N``, ``leads N``, ``follows N M``, ``holds N VALUE`` (it is
in the log of N), ``knows N VALUE`` (N knows that it is committed), ``leo N OFFSET``, ``hw N OFFSET``,
``answered``, ``in-flight CHANNEL A->B``, ``converged``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.core.generations import GENERATIONS
from tidelog.core.keeper_paths import CONTROLLER
from tidelog.faults import FAULT_VERBS, MENDING_VERBS
from tidelog.faults.places import CHANNEL_NAMES, Channel, Node
from tidelog.faults.step import EVERY_GENERATION, Aimed, Duration, Passage, Sides, Step
from tidelog.faults.targets import Takes
from tidelog.scenario.conditions import CONDITIONS, TIMES_OUT, Condition
from tidelog.scenario.line import Line, did_you_mean, is_number
from tidelog.settings.topic import TOPIC

CANCEL = "cancel"

LONGEST_MS = 60 * 60_000
"""An hour of simulated time takes seconds; a year would never end."""

ALTERABLE = {name: TOPIC[name].kind for name in ("min.insync.replicas", "unclean.leader.election.enable")}
"""The settings of a topic that replication obeys."""


# ---------------------------------------------------------------- words to values


def duration(line: Line, index: int) -> Duration:
    expected = "a duration like 500ms or 10s"
    word = line.need(index, expected)
    for suffix, factor in (("ms", 1), ("s", 1000), ("m", 60_000)):
        if word.endswith(suffix) and is_number(word[: -len(suffix)]):
            found = Duration(int(word[: -len(suffix)]) * factor)
            if found.ms > LONGEST_MS:
                raise line.error(index, f"at most {LONGEST_MS // 60_000}m")
            return found
    raise line.error(index, expected)


def node(word: str) -> Node:
    """A broker may be written 1 or broker-1."""
    if word.startswith("broker-"):
        word = word[len("broker-") :]
    return int(word) if is_number(word) else word


def channel(line: Line, index: int) -> Channel:
    name = line.need(index, f"a channel ({', '.join(CHANNEL_NAMES)})")
    if name not in CHANNEL_NAMES:
        raise line.error(index, f"a channel ({', '.join(CHANNEL_NAMES)})")
    ends = line.need(index + 1, "two nodes like 1->0")
    source, arrow, target = ends.partition("->")
    if not (source and arrow and target):
        raise line.error(index + 1, "two nodes like 1->0")
    return Channel(name, node(source), node(target))


def generations(line: Line, index: int) -> tuple[str, ...]:
    expected = f"generations out of {', '.join(GENERATIONS)}, or {EVERY_GENERATION}"
    named = tuple(line.need(index, expected).split(","))
    if named != (EVERY_GENERATION,) and not all(name in GENERATIONS for name in named):
        raise line.error(index, expected)
    return named


def _brokers(line: Line) -> tuple[object, ...]:
    line.need(1, "a broker's number")
    return tuple(line.number(index, "a broker's number") for index in range(1, len(line.words)))


def _values(line: Line) -> tuple[object, ...]:
    word = line.need(1, "a client's name")
    line.need(2, "at least one value to send")
    client, arrow, broker = word.partition("->")
    if not arrow:
        return (word, *line.words[2:])
    target = node(broker)
    if not client or not isinstance(target, int):
        raise line.error(1, "a producer and a broker like p->1")
    return (Aimed(client, target), *line.words[2:])


def _one_word(expected: str) -> Callable[[Line], tuple[object, ...]]:
    def parse(line: Line) -> tuple[object, ...]:
        word = line.need(1, expected)
        line.end(2)
        return (word,)

    return parse


def _nothing(line: Line) -> tuple[object, ...]:
    line.end(1)
    return ()


def _number(expected: str) -> Callable[[Line], tuple[object, ...]]:
    def parse(line: Line) -> tuple[object, ...]:
        number = line.number(1, expected)
        line.end(2)
        return (number,)

    return parse


def places(line: Line) -> Sides:
    left = line.need(1, "a zone or a node")
    one_way = line.word(2) == "->"
    right = line.need(3 if one_way else 2, "a zone or a node on the other side")
    return Sides(tuple(left.split(",")), tuple(right.split(",")), one_way)


def _sides(line: Line) -> tuple[object, ...]:
    cut = places(line)
    line.end(4 if cut.one_way else 3)
    return (cut,)


def _sides_or_nothing(line: Line) -> tuple[object, ...]:
    return _sides(line) if len(line.words) > 1 else ()


def _delay(line: Line) -> tuple[object, ...]:
    cut = places(line)
    last = 4 if cut.one_way else 3
    line.end(last + 1)
    return (cut, duration(line, last))


def _pair(line: Line) -> tuple[object, ...]:
    pair = (line.number(1, "a broker's number"), line.number(2, "a broker's number"))
    line.end(3)
    return pair


def _channel_or_all(line: Line) -> tuple[object, ...]:
    if line.word(1) == "all":
        line.end(2)
        return ("all",)
    return _one_channel(line)


def _one_channel(line: Line) -> tuple[object, ...]:
    found = channel(line, 1)
    line.end(3)
    return (found,)


def _advance(line: Line) -> tuple[object, ...]:
    line.end(2)
    return (duration(line, 1),)


def _configure(line: Line) -> tuple[object, ...]:
    topic = line.need(1, "a topic's name")
    line.need(2, f"KEY=VALUE with KEY one of {', '.join(ALTERABLE)}")
    settings = line.settings(2, ALTERABLE)
    return (topic, *(f"{key}={ALTERABLE[key].show(value)}" for key, value in settings.items()))


def _reassign(line: Line) -> tuple[object, ...]:
    topic = line.need(1, "a topic's name")
    word = line.need(2, "brokers like 1,2 or cancel")
    line.end(3)
    return (topic, CANCEL if word == CANCEL else _ids(line, 2, "brokers like 1,2 or cancel"))


def _create_topic(line: Line) -> tuple[object, ...]:
    topic = line.need(1, "a topic's name")
    brokers = _ids(line, 2, "brokers like 1,2")
    line.end(3)
    return (topic, brokers)


def _delete(line: Line) -> tuple[object, ...]:
    if line.need(1, CONTROLLER) != CONTROLLER:
        raise line.error(1, f"{CONTROLLER}, the only node that can be deleted")
    line.end(2)
    return (CONTROLLER,)


# ---------------------------------------------------------------- conditions


def _ids(line: Line, index: int, what: str) -> tuple[int, ...]:
    word = line.need(index, what)
    if not all(map(is_number, word.split(","))):
        raise line.error(index, what)
    return tuple(int(part) for part in word.split(","))


def _condition_args(line: Line, name: str) -> tuple[tuple[object, ...], int]:
    """The arguments of a condition and the index of the first word behind them."""
    broker = "a broker's number"
    if name == "leader":
        return ((None,) if line.word(2) == "none" else (line.number(2, "a broker's number or none"),)), 3
    if name == "replicas" and line.word(2) == "none":
        return (None,), 3
    if name in ("isr", "replicas"):
        return (_ids(line, 2, "brokers like 0,1"),), 3
    if name in ("epoch", "controller", "registered", "unregistered", "leads"):
        return (line.number(2, "a number"),), 3
    if name in ("leo", "hw"):
        return (line.number(2, broker), line.number(3, "an offset")), 4
    if name == "follows":
        return (line.number(2, broker), line.number(3, broker)), 4
    if name in ("holds", "knows"):
        return (line.number(2, broker), line.need(3, "a value")), 4
    if name == "in-flight":
        return (channel(line, 2),), 4
    return (), 2


def _wait(line: Line) -> tuple[object, ...]:
    name = line.need(1, f"a condition ({', '.join(CONDITIONS)})")
    if name not in CONDITIONS:
        raise line.error(1, f"a condition ({', '.join(CONDITIONS)}){did_you_mean(name, CONDITIONS)}")
    args, index = _condition_args(line, name)
    within = None
    if line.word(index) == "within":
        within = duration(line, index + 1).ms
        index += 2
    times_out: tuple[str, ...] = ()
    if line.word(index) == TIMES_OUT:
        times_out = generations(line, index + 1)
        index += 2
    line.end(index)
    return (Condition(name, args, within, times_out),)


_PARSERS: dict[Takes, Callable[[Line], tuple[object, ...]]] = {
    Takes.NOTHING: _nothing,
    Takes.BROKER: _number("a broker's number"),
    Takes.BROKERS: _brokers,
    Takes.PAIR: _pair,
    Takes.MEMBER: _number("a keeper member's number"),
    Takes.ZONE: _one_word("a zone"),
    Takes.SIDES: _sides,
    Takes.SIDES_OR_NOTHING: _sides_or_nothing,
    Takes.DELAY: _delay,
    Takes.CHANNEL_OR_ALL: _channel_or_all,
}
TAKES: dict[str, Takes] = {
    **{verb: fault.takes for verb, fault in FAULT_VERBS.items()},
    **{verb: damage.takes for verb, damage in MENDING_VERBS.items()},
    "sync": Takes.BROKERS,
    "settle": Takes.NOTHING,
    "tick": Takes.NOTHING,
}
"""Verbs whose arguments are places: what can be done to a cluster and undone, and a few more."""
_OTHERS: dict[str, Callable[[Line], tuple[object, ...]]] = {
    "produce": _values,
    "send": _values,
    "read": _one_word("a consumer's name"),
    "poll": _one_word("a consumer's name"),
    "configure": _configure,
    "deliver": _one_channel,
    "drop": _one_channel,
    "reassign": _reassign,
    "create-topic": _create_topic,
    "delete-topic": _one_word("a topic's name"),
    "delete": _delete,
    "advance": _advance,
    "wait": _wait,
}
VERBS = (*_OTHERS, *TAKES)


def parse_step(line: Line, narration: tuple[Passage, ...] = ()) -> Step:
    verb = line.word(0)
    if verb not in VERBS:
        raise line.error(0, f"a command{did_you_mean(verb, VERBS)}; the commands are {', '.join(VERBS)}")
    parser = _OTHERS[verb] if verb in _OTHERS else _PARSERS[TAKES[verb]]
    return Step(verb, parser(line), narration)
