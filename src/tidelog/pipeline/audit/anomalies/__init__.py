"""The audits: one pure function from evidence to anomalies each, in the order in which they are told.

Rules of the folder:

* One module per anomaly; its docstring defines the anomaly, says exactly how it is judged and how grave it
  is. `docs/reference/anomalies.md` is made from these docstrings.
* `find(inputs)` returns rows of the common schema, keyed by topic and partition, and collects nothing but
  sums; None if those show already that there is nothing to find. Several of them run at once.
* An audit runs only if everything it needs is there. Not run is not the same as nothing found.
* Unknown outcomes are neither lost nor phantom, control records belong to nobody.
* `final_log`, `stretches`, `sums`, `fates`, `strays`, `polls` and `transactions` are what several audits
  stand on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.audit.anomalies import (
    aborted_read,
    below_promise,
    damaged,
    diverged,
    duplicated,
    inconsistent_offset,
    information_cycle,
    lost,
    nonmonotonic_poll,
    phantom,
    poll_skip,
    precommitted_read,
    reordered,
    rewritten,
    unavailable,
    unknown_arrived,
    unseen,
    write_cycle,
)
from tidelog.pipeline.audit.inputs import (
    ALL_SENDS,
    FINAL_LOG,
    FINAL_READ,
    HAPPENINGS,
    READ,
    REPLICA_LOGS,
    SENDS,
    Inputs,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True, frozen=True)
class Audit:
    name: str
    needs: frozenset[str]
    find: Callable[[Inputs], DataFrame | None]
    title: str
    """What it finds, in a few words."""
    doc: str
    """The same at length: the module's docstring."""


def _audit(name: str, module: object, title: str, *needs: str) -> Audit:
    return Audit(name, frozenset(needs), getattr(module, "find"), title, getattr(module, "__doc__"))  # noqa: B009


AUDITS: Final = (
    _audit("lost", lost, "acknowledged, and not in the log", SENDS, FINAL_LOG),
    _audit("unseen", unseen, "in the log, and not read at the end", SENDS, FINAL_READ),
    _audit("duplicated", duplicated, "one value at several offsets", SENDS, FINAL_LOG),
    _audit("diverged", diverged, "replicas disagree at an offset", REPLICA_LOGS),
    _audit("rewritten", rewritten, "read, and another value stands there now", READ, FINAL_LOG),
    _audit("inconsistent offset", inconsistent_offset, "two values told at one offset", SENDS, FINAL_LOG),
    _audit("phantom", phantom, "nobody sent it", ALL_SENDS, FINAL_LOG),
    _audit("aborted read", aborted_read, "its send had failed", SENDS, FINAL_LOG),
    _audit("damaged", damaged, "other bytes than were sent", SENDS, FINAL_LOG),
    _audit("reordered", reordered, "against the order of its producer", SENDS, FINAL_LOG),
    _audit("poll skip", poll_skip, "a consumer was moved past it", READ, FINAL_LOG),
    _audit("non-monotonic poll", nonmonotonic_poll, "a consumer was moved back", READ),
    _audit("precommitted read", precommitted_read, "read before it was committed", READ),
    _audit("write cycle", write_cycle, "transactions wrote in a circle", SENDS),
    _audit("circular information", information_cycle, "transactions saw each other in a circle", SENDS),
    _audit(
        "acknowledged below promise", below_promise, "too few copies when acknowledged", SENDS, HAPPENINGS
    ),
    _audit("unavailable", unavailable, "a partition could not be written"),
    _audit("unknown arrived", unknown_arrived, "nobody knew, and it is there", SENDS, FINAL_LOG),
)
