"""The ledger is not blind: each promise, broken, is noticed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from tests.failover.ledger import Ledger, Place, audit_seen

LOG: dict[Place, bytes] = {(0, 0): b"a", (0, 1): b"b", (1, 0): b"c"}


def ledger() -> Ledger:
    """Of everything in `LOG`, and two records that are rightly not there: one refused, one in doubt."""
    return Ledger(
        sent=[(0, b"a"), (1, b"c"), (0, b"b"), (0, b"refused"), (0, b"in doubt")],
        acknowledged={value: place for place, value in LOG.items()},
        failed={b"refused": KafkaError.NOT_ENOUGH_REPLICAS, b"in doubt": KafkaError._MSG_TIMED_OUT},
    )


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(LOG, id="as-promised"),
        pytest.param(LOG | {(0, 2): b"in doubt"}, id="what-was-in-doubt-is-there"),
    ],
)
def test_kept_promises_pass(log: dict[Place, bytes]) -> None:
    """What is in doubt may be there or not."""
    ledger().audit(log, ordered_and_once=True)


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        pytest.param({(0, 0): b"a", (1, 0): b"c"}, "acknowledged, not there", id="lost"),
        pytest.param(LOG | {(0, 1): b"in doubt"}, "acknowledged, not there", id="replaced"),
        pytest.param(LOG | {(0, 2): b"x"}, "nobody sent", id="phantom"),
        pytest.param(LOG | {(0, 2): b"refused"}, "were refused", id="refused"),
        pytest.param(LOG | {(0, 2): b"a"}, "twice", id="duplicated"),
    ],
)
def test_broken_promises_are_named(log: dict[Place, bytes], complaint: str) -> None:
    """Lost, replaced, phantom, refused and duplicated records are distinguished."""
    with pytest.raises(AssertionError, match=complaint):
        ledger().audit(log, ordered_and_once=True)


def test_disorder_is_named() -> None:
    """Records in another order than they were sent in are noticed where order was promised."""
    swapped = Ledger(sent=[(0, b"b"), (0, b"a"), (1, b"c")], acknowledged=ledger().acknowledged)
    swapped.audit(LOG, ordered_and_once=False)
    with pytest.raises(AssertionError, match="another order"):
        swapped.audit(LOG, ordered_and_once=True)


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        pytest.param([((0, 0), b"z")], "something else later", id="rewritten"),
        pytest.param([((0, 1), b"b")], "skips or repeats", id="skipped"),
        pytest.param([((0, 0), b"a"), ((0, 0), b"a")], "skips or repeats", id="repeated"),
    ],
)
def test_what_was_seen_stays_true(seen: list[tuple[Place, bytes]], complaint: str) -> None:
    """A consumer's skips, repeats and records that were later replaced are noticed."""
    audit_seen([(place, LOG[place]) for place in LOG], LOG)
    with pytest.raises(AssertionError, match=complaint):
        audit_seen(seen, LOG)
