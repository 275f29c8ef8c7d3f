"""Topics that are created because clients ask for them: how often the controller hears of it."""

from tidelog.broker import wanted_topics
from tidelog.broker.wanted_topics import ASKED_AGAIN_AFTER_MS, UNANSWERED_MAX, WantedTopics
from tidelog.core.topic_messages import CreateTopicRequest, CreateTopicResponse
from tidelog.wire.errors import ErrorCode


class Controller:
    def __init__(self) -> None:
        self.there = True
        self.asked: list[str] = []
        self.wanted = WantedTopics(self._hear)

    def _hear(self, request: CreateTopicRequest) -> bool:
        if self.there:
            self.asked.append(request.topic)
        return self.there

    def want(self, topic: str, now: int = 0) -> ErrorCode:
        return self.wanted.want(CreateTopicRequest(topic=topic, partitions=1, replication_factor=1), now)

    def answer(self, topic: str, error: ErrorCode) -> None:
        self.wanted.answered(CreateTopicResponse(topic=topic, error=error, message="because"))


def test_the_controller_is_asked_once_however_often_clients_ask() -> None:
    """Until it has answered, or until that takes so long that the answer must be lost."""
    controller = Controller()
    for now in (0, 20, ASKED_AGAIN_AFTER_MS - 1):
        assert controller.want("t", now) is ErrorCode.LEADER_NOT_AVAILABLE
    assert controller.asked == ["t"]
    controller.want("t", ASKED_AGAIN_AFTER_MS)
    assert controller.asked == ["t", "t"]
    controller.answer("t", ErrorCode.NOT_CONTROLLER)
    controller.want("t", ASKED_AGAIN_AFTER_MS)
    assert controller.asked == ["t", "t", "t"]


def test_a_bounded_number_of_topics_at_a_time() -> None:
    """The others are asked for when clients come again: there is room once some are answered."""
    controller = Controller()
    names = [f"t{number}" for number in range(UNANSWERED_MAX + 2)]
    for name in names:
        assert controller.want(name) is ErrorCode.LEADER_NOT_AVAILABLE
    assert controller.asked == names[:-2]
    controller.answer("t0", ErrorCode.NONE)
    for name in names[-2:]:
        controller.want(name)
    assert controller.asked == names[:-1]


def test_without_a_controller_nothing_is_asked() -> None:
    """The client comes again, and then there may be one."""
    controller = Controller()
    controller.there = False
    assert controller.want("t") is ErrorCode.LEADER_NOT_AVAILABLE
    controller.there = True
    controller.want("t")
    assert controller.asked == ["t"]


def test_why_a_topic_cannot_be_is_told_to_whoever_asks_next() -> None:
    """And not any more once it can; what was refused long ago is not kept for ever."""
    controller = Controller()
    controller.want("t")
    controller.answer("t", ErrorCode.INVALID_REPLICATION_FACTOR)
    assert controller.want("t") is ErrorCode.INVALID_REPLICATION_FACTOR
    controller.answer("t", ErrorCode.NONE)
    assert controller.want("t") is ErrorCode.LEADER_NOT_AVAILABLE
    controller.answer("t", ErrorCode.POLICY_VIOLATION)
    for number in range(wanted_topics.REFUSED_MAX):
        controller.answer(f"u{number}", ErrorCode.POLICY_VIOLATION)
    assert controller.want("t") is ErrorCode.LEADER_NOT_AVAILABLE
