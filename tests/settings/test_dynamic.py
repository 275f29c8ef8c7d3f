"""The settings that are changed while a broker runs."""

from __future__ import annotations

import pytest

from tidelog.settings import dynamic
from tidelog.settings.dynamic import DYNAMIC, DynamicSettings
from tidelog.settings.kinds import LONG_MAX
from tidelog.settings.table import SettingsError

LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


def test_those_of_a_broker_win_over_those_of_every_broker() -> None:
    """What is set nowhere, or wrongly by another tool, has its default."""
    values = DynamicSettings.from_keeper({LEADER: "1"}, {LEADER: "2", FOLLOWER: "3"})
    assert (values.leader_replication_throttled_rate, values.follower_replication_throttled_rate) == (1, 3)
    wrong = DynamicSettings.from_keeper({LEADER: "-1", "num.partitions": "2"}, {FOLLOWER: "much"})
    assert wrong == DynamicSettings() == DynamicSettings.from_keeper()
    assert wrong.leader_replication_throttled_rate == LONG_MAX


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (LEADER, "-1", f"{LEADER}=-1: expected an integer of at least 0"),
        (FOLLOWER, "10MB", f"{FOLLOWER}=10MB: expected an integer"),
        ("num.partitions", "3", "num.partitions cannot be changed at run time: set it in the broker's file"),
        ("node.id", "3", "node.id cannot be changed at run time"),
        (
            "leader.replication.throttled.rat",
            "3",
            f"unknown setting of a running broker leader.replication.throttled.rat: did you mean {LEADER}?",
        ),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        dynamic.check({FOLLOWER: "0", name: value})
    assert str(refused.value).startswith(complaint)


def test_every_setting_says_what_it_does() -> None:
    for setting in DYNAMIC.values():
        assert setting.doc.endswith("."), setting.name
        assert setting.kind.parse(setting.default_text) == setting.default
