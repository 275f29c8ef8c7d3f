"""The anomalies: what each is, exactly how it is judged, and how grave it is, in the order in which they are
told. `docs/reference/anomalies.md` is made from these definitions.

Rules of the file: an audit runs only if everything it needs is there. Not run is not the same as nothing
found. Unknown outcomes are neither lost nor phantom, control records belong to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.audit.evidence import (
    ALL_SENDS,
    BROKER_LOGS,
    FINAL_LOG,
    FINAL_READ,
    HAPPENINGS,
    READ,
    REPLICA_LOGS,
    SENDS,
)


@dataclass(slots=True, frozen=True)
class Audit:
    name: str
    title: str
    """What it finds, in a few words."""
    needs: frozenset[str]
    doc: str
    """The same at length."""


def _audit(name: str, title: str, *needs: str, doc: str) -> Audit:
    return Audit(name, title, frozenset(needs), doc)


AUDITS: Final = (
    _audit(
        "lost",
        "acknowledged, and not in the log",
        SENDS,
        FINAL_LOG,
        doc="""\
**Lost**: acknowledged, and not in the committed log at the end.

Judged: a send with the outcome `ok` whose value stands nowhere in the final log of its partition; of a value
that was sent more than once, if none of its copies does. Not judged are sends whose offset lies below the
start of the log (retention or DeleteRecords took them), those without an offset where the log does not start
at 0, and in compacted topics those whose key was written again, or may have been. Of a transaction in doubt
all sends count as acknowledged once one of its values was seen: then it committed. Where nobody read to the
end, what was acknowledged behind the last record that was read is not lost but unseen.

Severity: a violation with `acks` 1 or all. With `acks=0` nobody promised anything: a notice.
""",
    ),
    _audit(
        "unseen",
        "in the log, and not read at the end",
        SENDS,
        FINAL_READ,
        doc="""\
**Unseen**: acknowledged and in the log, but the final reader did not get it.

Judged: values that the final log holds of acknowledged sends, against what the consumer read that went
through every partition once more at the end, wherever it read them. Needs replica logs: without them that
reader *is* the final log, and what it did not get counts as lost. Unless it is known that nobody read to the
end (an imported history): then unseen is what was acknowledged behind the last record that anybody read, or
without an offset, and never turned up. Severity: a violation.
""",
    ),
    _audit(
        "duplicated",
        "one value at several offsets",
        SENDS,
        FINAL_LOG,
        doc="""\
**Duplicated**: one value at two or more offsets of the committed log.

Judged: a value that stands in the final log of its partition more than once. Or it was sent once and stands
elsewhere than its producer was told, and nothing stands there: then it was written twice, whatever became of
the other copy. (If another value stands there, that is an inconsistent offset.)

Severity: a violation if the producer is idempotent, because brokers must recognise a repeat within one
producer id and epoch. A notice if it is not (who sends again without idempotence takes that risk), if the
value was itself sent as many times as it stands there, or if the log shows that the copies carry different
producer ids or epochs: then the client itself began anew after a send that had timed out, and no broker can
know.
""",
    ),
    _audit(
        "diverged",
        "replicas disagree at an offset",
        REPLICA_LOGS,
        doc="""\
**Diverged**: replicas disagree at one offset.

Judged: every offset that two or more replicas hold; they agree if leader epoch, timestamp, key, value and
headers are the same and both or neither belong to the protocol. A replica that ends earlier, or has deleted
more, disagrees with nobody.

Severity: a violation below the committed end. Above it a notice: a follower that was away still holds what
its leader gave up, and drops it when it returns.
""",
    ),
    _audit(
        "missing copy",
        "an in-sync replica lacks it",
        REPLICA_LOGS,
        doc="""\
**Missing copy**: a replica that is in sync lacks a committed record.

Judged: every committed offset that another replica holds, against the logs of the members of the ISR at the
end, between where each starts and ends; and members that end more than 100 records below the committed end.
(Replicas are collected while the cluster stops, so the last few records may be on their way.) Records that
follow each other are one finding; `count` says how many. Not judged where the topic is compacted, because
replicas compact at different times. Severity: a violation: a member of the ISR may lead at any moment, and
then what it lacks is lost.
""",
    ),
    _audit(
        "rewritten",
        "read, and another value stands there now",
        READ,
        FINAL_LOG,
        doc="""\
**Rewritten**: a consumer read one value at an offset, and the log holds another there now.

Judged: every read against the final log at its offset, values compared by their ids; a control record that
stands there now is another value as well. A read at an offset that the log does not reach any more is not one
(the record may be lost, which is told as such). Severity: a violation: what was readable was committed, and
what is committed does not change.
""",
    ),
    _audit(
        "inconsistent offset",
        "two values told at one offset",
        SENDS,
        FINAL_LOG,
        doc="""\
**Inconsistent offset**: two values were reported at one offset.

Judged: who acknowledged a send named its offset, and whoever reads a record learns its offset; all that was
said about one offset of a partition must name the same value. Of two that differ at least one differs from
the final log, so only offsets are looked at where an acknowledgement or a read does. Severity: a violation.
""",
    ),
    _audit(
        "phantom",
        "nobody sent it",
        ALL_SENDS,
        FINAL_LOG,
        doc="""\
**Phantom**: a record that nobody sent.

Judged: a value in the final log, or in what a consumer read and the final log does not hold there, that is
not in the ledger for that partition. Needs the whole ledger. Control records belong to the protocol, not to
anybody's ledger, and are never phantoms. Severity: a violation.
""",
    ),
    _audit(
        "aborted read",
        "its send had failed",
        SENDS,
        FINAL_LOG,
        doc="""\
**Aborted read**: the value of a send that certainly failed is there all the same.

Judged: a value whose only send has the outcome `failed`, in the final log as consumers of committed records
see it, or in what a consumer read. What a transaction wrote that was aborted is in the segment files and not
in that log. A send with an unknown outcome may have arrived, so it is never one. Severity: a violation,
because an application that was told so may have sent it again, or told its user that nothing happened.
""",
    ),
    _audit(
        "damaged",
        "other bytes than were sent",
        SENDS,
        FINAL_LOG,
        doc="""\
**Damaged**: a record has other bytes than it was sent with, or cannot be read.

Judged: a value that is known by its id, whose CRC-32 or key in the final log is not the one in the ledger; a
value that a consumer got with another CRC-32 or key than the final log holds; and places of a replica's
segment files that cannot be read, because the CRC of a batch does not match or there is no batch. No final
log is made of a replica with such a place while there is another.

Severity: a violation. A file that only ends inside a batch above the end of its log was being written: that
is none.
""",
    ),
    _audit(
        "reordered",
        "against the order of its producer",
        SENDS,
        FINAL_LOG,
        doc="""\
**Reordered** (non-monotonic send): two records of one producer stand in the opposite order.

Judged: of each producer and partition, the acknowledged sends that are in the final log, in the order of
their sequence; one whose first copy stands before that of the send preceding it. Besides, a send of an
idempotent producer whose outcome is not known, if it stands before an earlier acknowledged one. Values that
were sent twice are left out.

Severity: a violation if the producer is idempotent, which keeps order, or if it had the earlier send
acknowledged before it made this one. Otherwise both were in flight together and one was sent again: a notice.
""",
    ),
    _audit(
        "poll skip",
        "a consumer was moved past it",
        READ,
        FINAL_LOG,
        doc="""\
**Poll skip**: a consumer was moved on past records that are there.

Judged: a read whose offset lies behind the one that its consumer waited for, if the final log holds records
of producers in between. Control records and what retention or compaction took are no skip. Across polls and
inside one alike.

Severity: a violation; a notice if the consumer had been told that its place no longer exists, or if it is
known to belong to a group that may have moved it.
""",
    ),
    _audit(
        "non-monotonic poll",
        "a consumer was moved back",
        READ,
        doc="""\
**Non-monotonic poll**: a consumer was given an offset that it had passed already.

Judged: a read whose offset lies before the one that its consumer waited for. `detail` says whether it came in
one poll with what it contradicts, or in a later one.

Severity: a violation; a notice if the consumer had been told that its place no longer exists, or if it is
known to belong to a group that may have moved it.
""",
    ),
    _audit(
        "precommitted read",
        "read before it was committed",
        READ,
        doc="""\
**Precommitted read**: a consumer read a record before it was committed.

Judged: the last record of each poll, against the highest high watermark that any leader of the partition had
told by then. On real brokers moves of the watermark of a quarter of a second are told together and clocks
differ, so a second is allowed for; and a broker that is killed takes its last moves with it, so polls around
the death of a broker are not judged. By how much the clock of a broker differs from that of the clients is
estimated from sends and from the moves that committed them; if it is more than that second, reads of what
that broker led are not judged, and the verdict says so. What the next leader may serve it knew as a follower:
it says so when it becomes leader. Besides, a transaction that read a value which it had sent itself: it had
not committed yet. Severity: a violation.
""",
    ),
    _audit(
        "write cycle",
        "transactions wrote in a circle",
        SENDS,
        doc="""\
**Write cycle** (G0): transactions that wrote in a circle, each right before the next in some partition.

Judged: transactions that committed, in the order of their records in every partition; records of no
transaction between them do not matter. All transactions that are tied up with each other are one finding,
with one of their shortest cycles. The smallest is a transaction between two of whose records another wrote.

Severity: a notice. Kafka promises that a transaction becomes visible as a whole, and never that transactions
do not interleave in a partition.
""",
    ),
    _audit(
        "circular information",
        "transactions saw each other in a circle",
        SENDS,
        doc="""\
**Circular information** (G1c): transactions that committed and whose effects each other could see, in a
circle: one read what another wrote, which itself read, or was written behind, what the first had written.

Judged: as write cycles, with a further dependency: a transaction read a value that another one wrote. Only
cycles with at least one of these.

Severity: a violation if the cycle is made of reads alone. Each of its transactions then read, before it
committed, what another had not committed before it; and Kafka shows a consumer of committed records nothing
before its transaction is committed. If the cycle needs the order of writes in a partition, a notice: Kafka
lets transactions interleave there.
""",
    ),
    _audit(
        "acknowledged below promise",
        "too few copies when acknowledged",
        SENDS,
        HAPPENINGS,
        doc="""\
**Acknowledged below promise**: an acks=all send was acknowledged with fewer copies than
`min.insync.replicas`.

Judged: the leader's own account of each advance of its high watermark says who had to have the records. A
send is found whose offset was committed by fewer replicas than promised, if none of the states of the
partition between then and the acknowledgement had more in sync (one who asks again later is answered when
enough have it), and if no leader before had committed it with enough of them (a new leader comes to know of
it once more, alone if need be, while the answer of the old one is on its way). Brokers put advances of a
quarter of a second together, so a record may have been committed that much before the time of its advance.
The verdict says how many acknowledgements could be judged. Severity: a violation.
""",
    ),
    _audit(
        "unavailable",
        "a partition could not be written",
        doc="""\
**Unavailable**: for a while a partition could not be written.

Judged, each for itself and with its reason in `detail`: the keeper knew no leader; fewer replicas were in
sync than `min.insync.replicas` (for acks=all); the leader's process was killed and nobody had taken over;
or, as the clients saw it, a send waited for a second or more in which the partition acknowledged nothing.
Only while the load lasted. Severity: a notice: Kafka prefers being unavailable to losing what it
acknowledged.
""",
    ),
    _audit(
        "unknown arrived",
        "nobody knew, and it is there",
        SENDS,
        FINAL_LOG,
        doc="""\
**Unknown arrived**: a send whose outcome nobody knows is in the log.

Judged: a value whose only send has the outcome `unknown`, in the final log. That is what `unknown` means,
so it breaks no promise; but a producer that sends such a record again makes a duplicate. Sends of
transactions are not among them: one that was seen settles them all. Severity: a notice.
""",
    ),
    _audit(
        "broker exception",
        "a broker's log has a traceback",
        BROKER_LOGS,
        doc="""\
**Broker exception**: the log file of a broker has a traceback or a fatal error.

Judged: lines of the files in `logs` that belong to brokers. One finding for each broker; `count` says how
many, `detail` has the last one. Severity: a notice: what it broke shows elsewhere, and what broke it is a
fault of the program.
""",
    ),
)

BY_NAME: Final = {audit.name: audit for audit in AUDITS}
