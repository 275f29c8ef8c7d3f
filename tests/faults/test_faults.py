"""All faults: what is said about them is true."""

from __future__ import annotations

import runpy
from pathlib import Path

from tidelog.faults import FAULTS, SEARCH_FAULTS, TRIAL_FAULTS
from tidelog.faults.base import SearchView
from tidelog.faults.places import Node

ROOT = Path(__file__).parents[2]


def zone_of(node: Node) -> str:
    return f"az{node}"


def view(*running: int, min_insync: int = 2) -> SearchView:
    """Three brokers in three zones, each with a replica."""
    return SearchView(
        running=list(running or (0, 1, 2)),
        zone_of=zone_of,
        zones=("az0", "az1", "az2"),
        links_cut=False,
        keepers_up=(0, 1, 2),
        replicas=(0, 1, 2),
        min_insync=min_insync,
    )


def test_the_page_is_made_from_the_faults():
    """Written by docs/reference/make_faults.py; run it after a change."""
    made = runpy.run_path(str(ROOT / "docs/reference/make_faults.py"))["page"]()
    assert (ROOT / "docs/reference/faults.md").read_text() == made


def test_every_fault_has_words_in_both_languages():
    for fault in FAULTS:
        assert fault.words.en.isascii()
        assert not fault.words.zh.isascii()


def test_names_are_unique():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault for fault in FAULTS if fault.weight} == set(TRIAL_FAULTS.values())
    assert {fault for fault in FAULTS if fault.searched} == set(SEARCH_FAULTS.values())


def test_a_search_recognises_every_step_that_a_fault_offers():
    for fault in SEARCH_FAULTS.values():
        offered = fault.options(view())
        assert offered
        assert all(fault.is_step(step, zone_of, (0, 1, 2)) for step in offered)
