"""Print what every network fault of the catalogue does to a producer that retries.

Run from the root of the tree:
``.venv/bin/python docs/reference/make_retries.py > docs/reference/retries.md``.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tidelog.core.messages import ACKS_ALL
from tidelog.lab.play import run
from tidelog.scenario import catalogue
from tidelog.scenario.run import Run
from tidelog.scenario.scenario import Scenario

NETWORK_VERBS = frozenset({"cut", "isolate", "hold", "drop"})
"""Steps that keep messages from arriving, or from arriving in time."""
RETRIES = 3
GENERATION = "epoch"
NAMED_MAX = 4
HEAD = f"""\
# Retries, with and without idempotence

Every scenario of the [catalogue](scenarios.md) in which messages are lost or late, played in the simulator
under the rules of Kafka 2.7 with producers that use acks=all and retry {RETRIES} times. *Copies* is how often
one record stood in one replica's log, at most, at any time; *left* are the records that are in the committed
log more than once in the end. Copies that an isolated leader wrote are cut off when it returns: they do not
count as left.

**With `enable.idempotence=true` there is one copy of each record, always and everywhere, in all of them.** A
retry carries the sequence number of the first attempt; a leader that has it answers with its offset, be it
another leader than the one that wrote it: the state is a function of the log.

To see one of them step by step: `tidelog scenario show NAME > mine.scenario`, add `retries=3` or
`enable.idempotence=true` to its `producer` lines, and `tidelog replay mine.scenario`.

<!-- Written by docs/reference/make_retries.py. -->

| scenario | copies | left | idempotent: copies | left |
|---|---|---|---|---|
"""


def has_network_faults(scenario: Scenario) -> bool:
    return any(step.verb in NETWORK_VERBS for step in scenario.steps)


def with_retries(scenario: Scenario, *, idempotent: bool, retries: int = RETRIES) -> Scenario:
    """The same with other producers. What it expected of the end does not hold for them."""
    clients = [
        client
        if (producer := client.producer) is None
        else replace(
            client,
            producer=replace(
                producer, acks=ACKS_ALL, retries=max(retries, producer.retries), idempotent=idempotent
            ),
        )
        for client in scenario.clients
    ]
    return replace(scenario, clients=clients, expectations=[])


def most_copies(run: Run) -> int:
    """How often one value was in one replica's log, at most, at any time."""
    logs = (
        replica.records
        for played in run.played
        for partition in played.after.partitions
        for replica in partition.replicas
    )
    counts = (Counter(value for _, _, value in log if value is not None) for log in logs)
    return max((max(count.values()) for count in counts if count), default=0)


def row(scenario: Scenario) -> str:
    cells = []
    for idempotent in (False, True):
        played = run(with_retries(scenario.under(GENERATION), idempotent=idempotent))
        left = [str(finding["value"]) for finding in played.verdict.duplicated]
        named = ", ".join(left) if len(left) <= NAMED_MAX else f"{len(left)} records"
        cells += [str(most_copies(played)), named]
    return f"| {scenario.name} | {' | '.join(cells)} |"


def rows() -> Iterator[str]:
    for name in catalogue.names():
        scenario = catalogue.load(name)
        if has_network_faults(scenario) and any(client.producer for client in scenario.clients):
            yield row(scenario)


def page() -> str:
    return HEAD + "\n".join(rows()) + "\n"


if __name__ == "__main__":
    print(page(), end="")
