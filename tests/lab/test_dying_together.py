"""Brokers whose sessions end at the same moment: the controller hears of all of them at once."""

from tests.lab.stories import play, state

HEAD = """
    scenario together
    cluster brokers=3 controller=2
    topic t replicas=0,1
    producer p zone=az3
"""


def test_they_leave_the_isr_in_the_order_of_their_ids() -> None:
    """As in Kafka, whichever joined first: so the one with the highest id is the last member and stays."""
    steps = """
        crash 0
        wait leader 1
        restart 0
        wait isr 0,1
        elect-preferred
        wait leads 0
        crash 0 1
        wait leader none
    """
    assert state(play(HEAD, steps))[2] == [1]
