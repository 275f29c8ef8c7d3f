"""The bar of a trial: what it does, and what it waits for."""

from typing import Any, ClassVar

from tidelog.cli.show.trial_progress import Bar
from tidelog.trials.load.topic import PartitionInfo, Topic


def test_the_bar_says_what_a_phase_waits_for():
    """Healing may take a minute; it says why. The next phase begins with nothing."""
    bar = Bar()
    bar.phase("heal", None)
    bar.waits("partition 3 has no leader")
    assert bar.progress.tasks[-1].fields["numbers"] == "partition 3 has no leader"
    bar.phase("settle", None)
    assert [task.fields["numbers"] for task in bar.progress.tasks] == [""]


class _Healing(Topic):
    """Becomes whole in three steps."""

    looks: ClassVar[tuple[list[PartitionInfo], ...]] = (
        [],
        [PartitionInfo(0, -1, (1, 2), ())],
        [PartitionInfo(0, 1, (1, 2), (1,))],
        [PartitionInfo(0, 1, (1, 2), (1, 2))],
    )

    def __init__(self) -> None:
        nothing: Any = None
        super().__init__(nothing, "t", 1, "")
        self._looks = iter(self.looks)

    def states(self) -> list[PartitionInfo]:
        return next(self._looks)


def test_healing_says_what_is_not_whole_yet():
    """At every look, until nothing is left."""
    said: list[str] = []
    assert _Healing().wait_until_whole(60, waits=said.append) is None
    assert said == [
        "no broker answers",
        "partition 0 has no leader",
        "partition 0 has not all replicas in sync: 2",
    ]
