"""Claims of the documentation that no scenario of the catalogue shows as it is."""

from importlib.resources import files

from tidelog.lab.play import run
from tidelog.scenario.scenario import parse


def test_hw_loss_does_not_need_a_min_isr_of_one() -> None:
    """c was on both replicas when it was acknowledged: min.insync.replicas=2 does not save it
    (docs/design/architecture.md, "Where the source documents err")."""
    told = (files("tidelog.scenario.catalogue") / "hw-loss.scenario").read_text("utf-8")
    stricter = told.replace("topic    t replicas=0,1", "topic    t replicas=0,1 min.insync.replicas=2")
    assert stricter != told
    played = run(parse(stricter).under("hw"))
    assert played.facts()["lost"] == "c"
    assert played.surprises() == []
