"""The fetches of a follower to one leader, in a fetch session (KIP-227).

The core fetches one partition at a time. Here one request waits at the leader for all of them, and names
only those that the core fetches at another position than before.

Rules of the file:

* The first request opens the session: it names everything that is due, and its answer brings the id. What
  becomes due meanwhile does not wait for data with it: an empty request makes the leader answer the first.
* Within the session a request is for all partitions, named or not. What becomes due while one waits
  goes out at once, with the next request: the leader answers the waiting one (``replica_session.py``). At
  most two are under way, so that a slow leader gets few requests with many partitions.
* The id of a topic is named with its first partition, and when it changes: the session keeps it.
* A partition that the core has not fetched again after an answer leaves the session with the next request:
  the core waits before it tries again, or follows another leader. One that the core gives up leaves at once.
* A partition that a throttle holds back leaves the session, too, until more may pass.
* An answer belongs to the request as it was sent. A partition that was named again since then, with another
  epoch, is answered for its former position, and the core drops it.
* On an error of the session everything that is unanswered is fetched in full. After a reconnect the core
  repeats its requests, so all that was known is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidelog.broker.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from tidelog.broker.peers.connection import PeerConnection
from tidelog.broker.throttles import FollowerThrottle
from tidelog.broker.translation import replication
from tidelog.core.messages import FetchRequest, FetchResponse
from tidelog.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicId, TopicPartition
from tidelog.wire.messages import fetch
from tidelog.wire.one_partition import NAME_BYTES_MAX, FetchedOne

IN_FLIGHT_MAX = 2
UNCHANGED = NO_BROKER_EPOCH
"""In a session the broker epoch is named once, and when it changes."""

Fetches = dict[TopicPartition, FetchRequest]


@dataclass(slots=True, eq=False)
class Flight:
    """A request under way."""

    session: int
    """Counts the sessions of this follower: an answer of a former one is ignored."""
    opens: bool
    former: Fetches = field(default_factory=dict)
    """What the request asked of partitions that were named again since, or left."""


class FollowerFetches:
    def __init__(
        self,
        line: PeerConnection,
        header: Callable[[], fetch.FetchRequest],
        max_bytes: int,
        throttle: FollowerThrottle,
    ) -> None:
        """``header`` makes a request without partitions, ``max_bytes`` is the limit for each of them."""
        self._line = line
        self._header = header
        self._max_bytes = max_bytes
        self._throttle = throttle
        self.held_back: Fetches = {}
        """What a throttle does not let the core fetch now."""
        self._due: Fetches = {}
        self._known: Fetches = {}
        """The content of the session, as the leader has it after the last request."""
        self._answered: dict[TopicPartition, None] = {}
        """Partitions of the session whose last fetch is answered."""
        self._gone: dict[TopicPartition, None] = {}
        """Partitions that must leave the session at once."""
        self._flights: deque[Flight] = deque()
        """The requests without an answer, oldest first."""
        self._session = 0
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._broker_epoch = UNCHANGED
        """This broker's epoch as the session's leader has it."""
        self._limits = (0, 0, 0, 0)
        """What every request of the session says: the follower, and how long to wait for how much."""

    # ------------------------------------------------------------ what the core wants

    def want(self, request: FetchRequest) -> None:
        if self._throttle.topics and self._throttle.delays(request):
            self.give_up(request.tp)
            self.held_back[request.tp] = request
            return
        if self.held_back:
            self.held_back.pop(request.tp, None)
        self._due[request.tp] = request

    def go_on(self) -> None:
        """Fetch what was held back, as far as the throttle allows."""
        held_back, self.held_back = self.held_back, {}
        for request in held_back.values():
            self.want(request)

    def give_up(self, tp: TopicPartition) -> None:
        """The core does not follow this leader any more, or not in this epoch."""
        self.held_back.pop(tp, None)
        self._due.pop(tp, None)
        if tp in self._known:
            self._gone[tp] = None

    def forget(self) -> None:
        """Begin a new session. The next request closes the former one, if the leader still has it."""
        self._session += 1
        self._epoch = INITIAL_EPOCH
        self._broker_epoch = UNCHANGED
        self._due, self._known, self._answered, self._gone = {}, {}, {}, {}

    def reconnected(self) -> None:
        """What was under way is lost, and the core repeats its requests."""
        self._flights.clear()
        self.held_back = {}
        self.forget()

    # ------------------------------------------------------------ requests

    def send(self, *, waiting: bool) -> None:
        """Send the next request, if there is a reason: something to say, or no request at the leader. With
        ``waiting`` the core will soon say what it fetches next."""
        flights = self._flights
        if self._epoch == INITIAL_EPOCH:
            if self._due:
                self._open()
        elif self._due or self._gone:
            if len(flights) < IN_FLIGHT_MAX and not self._continue_with_one():
                self._continue()
        elif not flights and not waiting:
            self._continue()

    def _open(self) -> None:
        flights = self._flights
        if all(flight.session != self._session for flight in flights):
            body = self._header()
            self._limits = (body.replica_id, body.max_wait_ms, body.min_bytes, body.max_bytes)
            body.session_id, body.session_epoch = self._id, INITIAL_EPOCH
            ids = {tp.topic: request.topic_id for tp, request in self._due.items()}
            body.topics = replication.named_partitions(self._due.values(), self._max_bytes, ids)
            self._known, self._due = self._due, {}
            self._put(body, Flight(self._session, opens=True))
        elif len(flights) < IN_FLIGHT_MAX:
            self._put(
                replication.fetch_of_nothing(BrokerId(self._header().replica_id)), Flight(-1, opens=False)
            )

    def _continue_with_one(self) -> bool:
        """``_continue`` if the request names one partition, at its next position, and nothing else is said:
        most do. False if it is not so, or there is no connection."""
        due = self._due
        if len(due) != 1 or self._gone:
            return False
        ((tp, request),) = due.items()
        before = self._known.get(tp)
        if (
            before is None
            or before.topic_id != request.topic_id
            or before.offset == request.offset
            or request.broker_epoch != self._broker_epoch
            or len(self._answered) != (tp in self._answered)
            or len(tp.topic) > NAME_BYTES_MAX
        ):
            return False
        flight = Flight(self._session, opens=False)
        epochs = (self._id, self._epoch)
        position = (request.current_leader_epoch, request.offset, request.log_start_offset)
        if not self._line.send_one((*self._limits, *epochs, *tp, *position, self._max_bytes), flight):
            return False
        self._replaced(before)
        self._known[tp] = request
        self._due, self._answered = {}, {}
        self._epoch = next_epoch(self._epoch)
        self._flights.append(flight)
        return True

    def _continue(self) -> None:
        known, due, named = self._known, self._due, []
        ids: dict[str, TopicId] = {}
        leaving = self._answered
        leaving |= self._gone
        for tp, request in due.items():
            before = known.get(tp)
            if before != request or tp in self._gone:
                named.append(request)
                if before is None or before.topic_id != request.topic_id:
                    ids[tp.topic] = request.topic_id
                self._replaced(before)
                known[tp] = request
            leaving.pop(tp, None)
        for tp in leaving:
            self._replaced(known.pop(tp, None))
        self._due, self._gone, self._answered = {}, {}, {}
        body = self._header()
        body.session_id, body.session_epoch = self._id, self._epoch
        if body.replica_epoch == self._broker_epoch:
            body.replica_epoch = UNCHANGED
        else:
            self._broker_epoch = BrokerEpoch(body.replica_epoch)
        body.topics = replication.named_partitions(named, self._max_bytes, ids)
        if leaving:
            body.forgotten_topics_data = replication.forgotten_partitions(leaving)
        self._epoch = next_epoch(self._epoch)
        self._put(body, Flight(self._session, opens=False))

    def _replaced(self, before: FetchRequest | None) -> None:
        if before is not None:
            for flight in self._flights:
                flight.former.setdefault(before.tp, before)

    def _put(self, body: fetch.FetchRequest, flight: Flight) -> None:
        self._flights.append(flight)
        self._line.send(replication.FETCH, replication.FETCH_VERSION, body, flight)

    # ------------------------------------------------------------ answers

    def answer_for_one(self, flight: Flight, body: FetchedOne) -> FetchResponse | None:
        """``answers`` for one partition; None if the core does not wait for it any more."""
        if not self._arrived(flight):
            return None
        if flight.opens:
            self._id, self._epoch = body.session_id, 1
        tp = TopicPartition(body.topic, body.partition)
        former = flight.former.get(tp)
        request = former or self._known.get(tp)
        if former is None and request is not None:
            self._answered[tp] = None
        if body.session_id == NO_SESSION:
            self._begin_again()
        return None if request is None else replication.fetched_from_wire(request, body)

    def _arrived(self, flight: Flight) -> bool:
        """Whether the answer is of this session."""
        if self._flights and self._flights[0] is flight:
            self._flights.popleft()
        return flight.session == self._session

    def answers(self, flight: Flight, body: fetch.FetchResponse) -> Iterator[FetchResponse]:
        """The answers of the core's fetches. What the core fetches next is sent by ``send``."""
        if not self._arrived(flight):
            return
        if body.error_code:
            self._begin_again()
            return
        if flight.opens:
            self._id, self._epoch = body.session_id, 1
        for response in replication.fetch_from_wire(flight.former, self._known, body):
            tp = response.tp
            if tp not in flight.former:
                self._answered[tp] = None
            yield response
        if body.session_id == NO_SESSION:
            self._begin_again()

    def _begin_again(self) -> None:
        """The leader has no session for this follower: fetch everything that is unanswered in full."""
        waiting = {
            tp: request
            for tp, request in self._known.items()
            if tp not in self._answered and tp not in self._gone
        }
        due = self._due
        self.forget()
        self._due = waiting | due
