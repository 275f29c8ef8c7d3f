"""Every example of the guide is a test that passes, unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.testing.plugged import plugged

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
def test_the_examples_pass(pytester: pytest.Pytester) -> None:
    assert len(EXAMPLES) == 6
    for number, source in enumerate(EXAMPLES):
        pytester.makepyfile(**{f"test_example_{number}": source})
    result = pytester.runpytest_subprocess(*plugged(), "--strict-markers", timeout=500)
    result.assert_outcomes(passed=len(EXAMPLES))


def test_the_guide_names_every_verb_and_fixture() -> None:
    from tidelog.testing import plugin
    from tidelog.testing.faults import Faults

    text = GUIDE.read_text("utf-8")
    verbs = [name for name, value in vars(Faults).items() if callable(value) and not name.startswith("_")]
    fixtures = [name for name in vars(plugin) if name.startswith("kafka_")]
    assert [name for name in (*verbs, *fixtures) if not re.search(rf"\b{name}\b", text)] == []
    assert len(fixtures) >= 11
