"""Producer snapshots: Kafka's format, whole or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.replication.producer_state import SEQUENCES, ProducerEntry, ProducerStates
from tidelog.storage.log.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot

INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
ENTRIES = st.lists(
    st.builds(SnapshotEntry, st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32), INT64), max_size=5
)


def test_the_format_is_kafkas() -> None:
    """Version 1, CRC-32C, count; the coordinator's and the transaction's fields say 'none'."""
    content = encode_snapshot([SnapshotEntry(ProducerEntry(7, 1, 12, 34, 2), 1_000)])
    assert content.hex() == (
        "0001" + "95027d2a" + "00000001" + "0000000000000007" + "0001" + "0000000c" + "0000000000000022"
        "00000002" + "00000000000003e8" + "ffffffff" + "ffffffffffffffff"
    )


@given(ENTRIES)
def test_entries_come_back(entries: list[SnapshotEntry]) -> None:
    """All of them, in order."""
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(ENTRIES, st.data())
def test_damage_is_noticed(entries: list[SnapshotEntry], data: st.DataObject) -> None:
    """A byte less, or a bit changed anywhere."""
    content = bytearray(encode_snapshot(entries))
    cut = data.draw(st.integers(0, len(content) - 1))
    assert decode_snapshot(bytes(content[:cut])) is None
    content[cut] ^= 1 << data.draw(st.integers(0, 7))
    assert decode_snapshot(bytes(content)) is None


@given(
    st.integers(0, SEQUENCES - 1), st.integers(0, 2**31 - 1).map(lambda n: n % 1_000), st.integers(0, 10**12)
)
def test_a_producer_is_the_same_after_being_written_down(last: int, delta: int, offset: int) -> None:
    """Also where the sequence numbers of its last batch wrap around."""
    states = ProducerStates()
    entry = ProducerEntry(3, 2, last, offset + delta, delta)
    states.put(entry)
    assert list(states.entries()) == [entry]


def test_a_producer_without_a_batch_is_written_down_too() -> None:
    """Kafka has such: only their epoch is known."""
    states = ProducerStates()
    entry = ProducerEntry(3, 2, -1, -1, 0)
    states.put(entry)
    assert list(states.entries()) == [entry]
