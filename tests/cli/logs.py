"""A log directory as a broker leaves it, made by hand: what `dump` reads in the tests."""

from pathlib import Path
from struct import pack

from crc32c import crc32c

from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch

FIRST, SECOND = "00000000000000000000", "00000000000000000006"
NOW = 1_760_000_000_000


def batch(
    offset: int, count: int = 3, *, epoch: int = 0, compression: Compression = Compression.NONE
) -> bytes:
    """A batch of records whose values are their offsets."""
    records = [
        Record(timestamp=NOW + n, key=b"k", value=str(n).encode(), headers=[("trace", b"\xff\x00")])
        for n in range(offset, offset + count)
    ]
    return build_batch(
        records,
        base_offset=offset,
        leader_epoch=epoch,
        compression=compression,
        producer_id=7,
        producer_epoch=0,
        base_sequence=offset,
    )


def snapshot(producer: int = 7) -> bytes:
    body = pack(">i", 1) + pack(">qhiqiqiq", producer, 0, 8, 8, 2, NOW, -1, -1)
    return pack(">hI", 1, crc32c(body)) + body


def log_dir(folder: Path) -> Path:
    """Partition events-0: offsets 0 to 8 in two segments, epochs 0 and 2, and all that goes with it."""
    partition = folder / "events-0"
    partition.mkdir(parents=True)
    first = batch(0) + batch(3, compression=Compression.ZSTD)
    (partition / f"{FIRST}.log").write_bytes(first)
    (partition / f"{FIRST}.index").write_bytes(pack(">ii", 5, len(batch(0))))
    (partition / f"{FIRST}.timeindex").write_bytes(pack(">qi", NOW + 5, 5))
    (partition / f"{SECOND}.log").write_bytes(batch(6, epoch=2))
    # As Kafka does while it writes: the file is larger than what is in it.
    (partition / f"{SECOND}.index").write_bytes(bytes(8 * 10_000))
    (partition / f"{SECOND}.timeindex").write_bytes(bytes(12 * 10_000))
    (partition / f"{SECOND}.snapshot").write_bytes(snapshot())
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 6\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: x\n")
    (folder / "empty-0").mkdir()
    (folder / "empty-0" / f"{FIRST}.log").write_bytes(b"")
    (folder / "empty-0" / "leader-epoch-checkpoint").write_text("")  # so Kafka creates it
    (folder / "replication-offset-checkpoint").write_text("0\n2\nevents 0 9\nempty 0 0\n")
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\nevents 0 6\n")
    (folder / "log-start-offset-checkpoint").write_text("0\n0\n")
    (folder / "meta.properties").write_text("#comment\nversion=0\nbroker.id=1\n")
    (folder / ".kafka_cleanshutdown").write_text("")
    return folder
