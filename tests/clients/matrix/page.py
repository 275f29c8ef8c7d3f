"""`docs/compatibility.md`: written from cells that have been run, and read again by the test that guards it.

python -m tests.clients.matrix.page        runs every cell, and writes the page if all of them hold
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import pytest
from tests.clients.matrix.client import FEATURES, NOT_BUILT, Client
from tests.clients.matrix.kcat import Kcat
from tests.clients.matrix.python_clients import AioKafkaClient, ConfluentKafka, KafkaPythonClient
from tests.clients.matrix.remote import FranzGo, Java3, Java4, Spark

CLIENTS: tuple[type[Client], ...] = (
    ConfluentKafka,
    KafkaPythonClient,
    AioKafkaClient,
    Java3,
    Java4,
    FranzGo,
    Kcat,
    Spark,
)
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "compatibility.md"
TESTS = ROOT / "tests" / "clients" / "test_matrix.py"
WORKS, LACKS, NOT_YET = "yes", "–", "not yet"

HEAD = """\
# Which clients work

Every *yes* was run: that client, that feature, against `tidelog up` with three brokers. What a cell does is
in [features.py](../tests/clients/matrix/features.py).

| command | |
|---|---|
| `make test` | the cells of the Python clients and of kcat |
| `.venv/bin/python -m pytest tests/clients/test_matrix.py` | all of them; those are skipped whose Maven, Go or kcat is missing |
| `.venv/bin/python -m tests.clients.matrix.page` | all of them, and writes this page if they hold |

"""  # noqa: E501
MEANINGS = """
- *produce*: acks=all, at the offsets that the client was given.
- *consume*: from the beginning, without a group.
- *groups*: two members share, commit, and take over from each other (eager assignors).
- *cooperative*: with the cooperative-sticky assignor no member ever gives up what it keeps.
- *static*: a member with `group.instance.id` comes back, and the others do not notice.
- *idempotent*: the sequence numbers in the log have neither gap nor repetition.
- *admin*: topics are created, described and deleted.
- *transactions*: tidelog does not serve them yet. A producer with `transactional.id` fails at once. Java
  clients and librdkafka say why ("tidelog does not serve transactions yet"). Others only name the error:
  franz-go and kafka-python UNSUPPORTED_VERSION, aiokafka CLUSTER_AUTHORIZATION_FAILED. Kafka Streams is to be
  run with `processing.guarantee=at_least_once`.

"""
SUITES = """
## Their own suites

Clients bring integration tests along, made for Apache Kafka. These were pointed at `tidelog up`, without the tests of
TLS, SASL and transactions, which are not served yet, and of what came after Kafka 2.7 (share groups, KIP-848):

| suite | held | not, and why |
|---|---|---|
| franz-go 1.22.2 | all | – |
| librdkafka 2.15.0 | 83 | topics recreated smaller (0107; served since then); ACLs (in 0081, 0109); changing a broker's settings (in 0081); message formats before 2 (0052, 0092) |
| kafka-python 3, August 2026 | 43 | ACLs; moving partitions between brokers (2 tests; served since then) and between disks; 2 that expect a broker 0 or that its settings can be changed |
| aiokafka 0.14.0 | 207 | 1 that expects a broker 0 |

- franz-go's is run by [test_franz_go_suite.py](../tests/clients/test_franz_go_suite.py), by `make test-all`. The
  others were run by hand in November 2026: librdkafka's with `./test-runner -L -K -V 2.7.0`, kafka-python's with
  `KAFKA_URI`, aiokafka's with an address instead of its container, one broker and two partitions a topic.
- Apache Kafka's `kafka-reassign-partitions` (4.3.1) proposes, executes, throttles, verifies, lists and cancels moves
  ([test_reassignment.py](../tests/clients/test_reassignment.py)); `kafka-configs` sets the rates of brokers.
- @platformatic/kafka 1.35.0 was tried by hand on Node.js 20, also in November 2026: topics, records, codecs (without
  zstd, which that Node.js lacks), groups of one and two members, committed positions, settings.
- librdkafka's 0102 and 0113 count rebalances and rely on Kafka's wait for the first members, which `tidelog up` leaves
  out: `--set group.initial.rebalance.delay.ms=3000`. One of aiokafka's (KIP-345) looks at a listener a moment before
  the client calls it, and fails now and then.
"""  # noqa: E501


def cells() -> list[tuple[type[Client], str]]:
    """Every client with every feature that it has."""
    return [(client, feature) for client in CLIENTS for feature in FEATURES if feature not in client.lacks]


def cell_id(client: type[Client], feature: str) -> str:
    """What its test is called by."""
    return f"{client.name}-{feature}"


def table(text: str) -> dict[str, dict[str, str]]:
    """The table of a page: what each client's row says of each feature."""
    lines = text[text.index("| client |") :].splitlines()
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in takewhile(lambda line: line.startswith("|"), lines)
    ]
    header, _rule, *body = rows
    return {row[0]: dict(zip(header[2:], row[2:], strict=True)) for row in body}


def expected() -> dict[str, dict[str, str]]:
    return {
        client.name: {
            **{feature: LACKS if feature in client.lacks else WORKS for feature in FEATURES},
            **dict.fromkeys(NOT_BUILT, NOT_YET),
        }
        for client in CLIENTS
    }


def page(versions: dict[str, str]) -> str:
    columns = [*FEATURES, *NOT_BUILT]
    lines = [f"| client | version | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for name, row in expected().items():
        lines.append(f"| {name} | {versions[name]} | {' | '.join(row[column] for column in columns)} |")
    reasons = [
        f"- {client.name}, {feature}: {reason}."
        for client in CLIENTS
        for feature, reason in client.lacks.items()
    ]
    what_is_lacking = "Where a client has nothing to run (–):\n\n" + "\n".join(reasons)
    return HEAD + "\n".join(lines) + "\n" + MEANINGS + what_is_lacking + "\n" + SUITES


class Held:
    """A pytest plugin that notes which cells held."""

    def __init__(self) -> None:
        self.cells: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.cells.add(report.nodeid.partition("[")[2].removesuffix("]"))


def main() -> int:
    held = Held()
    code = pytest.main(["-q", "--rootdir", str(ROOT), f"{TESTS}::test_cell"], plugins=[held])
    missing = sorted({cell_id(client, feature) for client, feature in cells()} - held.cells)
    if code or missing:
        told = ", ".join(missing)
        print(f"the page stays as it was; cells that did not hold or were skipped: {told}", file=sys.stderr)
        return 1
    PAGE.write_text(page({client.name: client.version() for client in CLIENTS}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
