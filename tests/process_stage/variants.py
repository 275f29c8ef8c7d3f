"""Schedules like those that were recorded, drawn from a seed: other brokers, another order, other settings.

Each command is followed by more time than any time-out of the cluster, and sessions expire well before
followers lag, so the state after it does not depend on the speed of the machine, and can be compared between
the stages at each step.
"""

from random import Random
from textwrap import dedent

from tidelog.scenario.scenario import Scenario, parse

BROKERS = (0, 1, 2)
QUIET = "advance 20s"
HEAD = """
    scenario variant
    cluster brokers=4 controller=3 replica.lag.time.max.ms=9000 zookeeper.session.timeout.ms=4000{off}
    topic t replicas=0,1,2 min.insync.replicas={least} unclean.leader.election.enable={unclean}
    producer all zone=az4 acks=all retries=0 request.timeout.ms=4000 delivery.timeout.ms=5000
    producer one zone=az4 acks=1 retries=0 request.timeout.ms=4000 delivery.timeout.ms=5000
"""
RULES = ("elr", "elr", "noelr", "epoch", "kip101", "hw")
DOWNS = ("crash", "stop", "power-off")


def variant(seed: int, steps: int = 6) -> Scenario:
    die = Random(seed)
    rules = RULES[seed % len(RULES)]
    off = " without=eligible_leader_replicas" if rules == "noelr" else ""
    unclean = die.random() < 0.2
    least = die.choice((1, 2, 2))
    head = HEAD.format(off=off, least=least, unclean=str(unclean).lower())
    commands: list[str] = ["produce all v0"]
    up, paused = set(BROKERS), set[int]()
    for number in range(1, steps + 1):
        options = [f"produce {producer} v{number}" for producer in ("all", "one")] * 2
        options += [f"{verb} {broker}" for broker in sorted(up - paused) for verb in DOWNS]
        options += [f"restart {broker}" for broker in BROKERS if broker not in up] * 3
        options += [f"pause {broker}" for broker in sorted(up - paused)]
        options += [f"resume {broker}" for broker in sorted(paused)] * 3
        options += [f"configure t min.insync.replicas={3 - least}", "sync 0 1 2"]
        chosen = die.choice(options)
        verb, *named = chosen.split()
        broker = int(named[0]) if named and named[0].isdecimal() else -1
        if verb in DOWNS:
            up.discard(broker)
        elif verb == "restart":
            up.add(broker)
        elif verb == "pause":
            paused.add(broker)
        elif verb == "resume":
            paused.discard(broker)
        elif verb == "configure":
            least = 3 - least
        commands += [chosen, QUIET]
    commands += [f"resume {broker}" for broker in sorted(paused)]
    commands += [f"restart {broker}" for broker in BROKERS if broker not in up]
    commands += [QUIET, QUIET, "produce all last", QUIET]
    generation = "elr" if rules == "noelr" else rules
    return parse(dedent(head) + "\n".join(commands)).under(generation)
