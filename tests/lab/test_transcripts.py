"""Golden transcripts: every scenario of the catalogue, step by step, as it was read and understood.

``pytest --rewrite tests/lab/test_transcripts.py`` writes them again. A transcript that changes is a change of
behaviour: commit the diff only if you understand it.
"""

from pathlib import Path

import pytest
from tests.lab.stories import known

from tidelog.narrate.transcript import print_transcript
from tidelog.scenario import catalogue

FOLDER = Path(__file__).resolve().parent.parent / "transcripts"

# The two generations of the documents tell every story; the others only where theirs is another one.
ALSO = {
    "kip101": (
        "kip-279-fast-failover",
        "kafka-7128-stale-watermark",
        "kafka-7395-zombie-follower",
        "kafka-8836-isr-in-doubt",
    ),
    "majority": ("hw-loss-chain", "isolate-leader-zone", "kip-966-last-replica-standing"),
}
TOLD = [(name, generation) for name in catalogue.names() for generation in ("hw", "epoch")] + [
    (name, generation) for generation, names in ALSO.items() for name in names
]


@pytest.mark.parametrize(("name", "generation"), TOLD)
def test_transcript(name: str, generation: str, rewrite: bool) -> None:
    """The run tells the same story as the file, event by event and state by state."""
    path = FOLDER / f"{name}.{generation}.txt"
    transcript = print_transcript(known(name, generation))
    if rewrite:
        path.write_text(transcript, "utf-8")
    assert path.is_file(), "no transcript yet: run pytest --rewrite, read what it wrote, commit it"
    assert transcript == path.read_text("utf-8")


def test_no_transcript_is_left_over() -> None:
    """Every file belongs to a scenario that still exists."""
    expected = {f"{name}.{generation}.txt" for name, generation in TOLD}
    assert {path.name for path in FOLDER.iterdir()} == expected
