"""Deadlines: what fires when, and what a cancelled one leaves behind."""

import gc
import weakref

from tidelog.core.timers import TIDIED_FROM, Timer, Timers


class Note:
    """Something that a callback refers to."""

    def __init__(self, fired: list[str], name: str) -> None:
        self.fired = fired
        self.name = name

    def take(self, now: int) -> None:
        self.fired.append(f"{self.name} at {now}")


def test_a_cancelled_timer_does_not_fire_and_the_others_do_in_order() -> None:
    """Also if it is cancelled by one that fires at the same moment."""
    timers, fired = Timers(), list[str]()
    last = Timer(20, Note(fired, "last").take)
    for timer in (Timer(20, lambda _: last.cancel()), last, Timer(10, Note(fired, "first").take)):
        timers.set(timer)
    later = Timer(30, Note(fired, "later").take)
    assert timers.set(later) is None  # the world knows of an earlier one
    assert timers.fire(25) == 30
    assert fired == ["first at 25"]
    assert timers.fire(30) is None
    assert fired == ["first at 25", "later at 30"]


def test_cancelling_lets_go_at_once() -> None:
    """Of whatever the callback refers to, without a garbage collector."""
    note = Note([], "large")
    left = weakref.ref(note)
    timers, timer = Timers(), Timer(10, note.take)
    timers.set(timer)
    del note
    gc.disable()
    try:
        timer.cancel()
        assert left() is None
    finally:
        gc.enable()
    assert timers.fire(10) is None


def test_cancelled_timers_do_not_pile_up() -> None:
    """However many are set and cancelled, the heap is at most twice as long as there are live ones."""
    timers, fired = Timers(), list[str]()
    kept = [Timer(10_000 + number, Note(fired, str(number)).take) for number in range(TIDIED_FROM)]
    for timer in kept:
        timers.set(timer)
    for number in range(10_000):
        timer = Timer(50_000 + number, Note(fired, "never").take)
        timers.set(timer)
        timer.cancel()
        assert len(timers) <= 2 * len(kept) + 1
    timers.fire(1_000_000)
    assert fired == [f"{number} at 1000000" for number in range(TIDIED_FROM)]


def test_tidying_while_timers_fire() -> None:
    """A callback that sets many timers makes the heap tidy itself under the one who goes through it."""
    timers, fired = Timers(), list[str]()

    def set_many(now: int) -> None:
        for number in range(3 * TIDIED_FROM):
            timer = Timer(now + number, Note(fired, "never").take)
            timers.set(timer)
            timer.cancel()
        timers.set(Timer(now, Note(fired, "now").take))
        timers.set(Timer(now + 5, Note(fired, "soon").take))

    timers.set(Timer(10, set_many))
    timers.set(Timer(11, Note(fired, "next").take))
    timers.fire(12)
    timers.fire(12)
    assert fired == ["next at 12", "now at 12"]
    timers.fire(17)
    assert fired[-1] == "soon at 17"


def test_a_timer_that_sets_itself_for_now_is_fired_once_a_call() -> None:
    """Its owner does other things between two calls."""
    timers, fired = Timers(), list[int]()

    def again(now: int) -> None:
        fired.append(now)
        timers.set(Timer(now, again))

    timers.set(Timer(5, again))
    assert [timers.fire(7), timers.fire(8)] == [7, 8]
    assert fired == [7, 8]
