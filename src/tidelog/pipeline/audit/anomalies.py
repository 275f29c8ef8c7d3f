"""The anomalies that an audit looks for, in the order in which a verdict lists them, and what each needs.

`docs/reference/anomalies.md` says of each exactly how it is judged and how grave it is.

The last three are of log folders that were imported, of which no ledger says what was acknowledged.

Rules of the file: an audit runs only if everything it needs is there. Not run is not the same as nothing
found. Unknown outcomes are neither lost nor phantom, control records belong to no producer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.pipeline.audit.evidence import Need


class Audit(NamedTuple):
    name: str
    needs: frozenset[Need]


_NEEDS: Final[dict[str, tuple[Need, ...]]] = {
    "lost": (Need.SENDS, Need.FINAL_LOG),
    "unseen": (Need.SENDS, Need.FINAL_READ),
    "duplicated": (Need.SENDS, Need.FINAL_LOG),
    "diverged": (Need.REPLICA_LOGS,),
    "missing copy": (Need.REPLICA_LOGS,),
    "rewritten": (Need.READS, Need.FINAL_LOG),
    "inconsistent offset": (Need.SENDS, Need.FINAL_LOG),
    "phantom": (Need.ALL_SENDS, Need.FINAL_LOG),
    "aborted read": (Need.SENDS, Need.FINAL_LOG),
    "damaged": (Need.FINAL_LOG,),
    "reordered": (Need.SENDS, Need.FINAL_LOG),
    "poll skip": (Need.READS, Need.FINAL_LOG),
    "non-monotonic poll": (Need.READS,),
    "precommitted read": (Need.READS,),
    "write cycle": (Need.SENDS,),
    "circular information": (Need.SENDS,),
    "acknowledged below promise": (Need.SENDS, Need.EVENTS),
    "unavailable": (),
    "unknown arrived": (Need.SENDS, Need.FINAL_LOG),
    "broker exception": (Need.BROKER_LOGS,),
    "too few copies": (Need.LOG_FOLDERS,),
    "unclean election": (Need.LOG_FOLDERS, Need.EVENTS),
    "hanging transaction": (Need.LOG_FOLDERS,),
}
AUDITS: Final = tuple(Audit(name, frozenset(needs)) for name, needs in _NEEDS.items())
