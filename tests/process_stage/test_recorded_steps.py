"""Every value of every step that was recorded on real clusters of Apache Kafka 0.10.1.0, 2.7.1 and 4.3.1, on
real brokers of ours."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.lab.recorded import SCHEDULES, check, end_of_steps, name_of_error, recording_of, scenario_of

from tidelog.broker.translation.clients import as_memory
from tidelog.faults.step import Step
from tidelog.kafka_client.aio import ask
from tidelog.process_stage.clock import Pace, suitable_paces
from tidelog.process_stage.play import play_on_cluster
from tidelog.process_stage.processes import Processes
from tidelog.wire.api import Api
from tidelog.wire.batch import RecordBatch
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

ANSWER_SECONDS = 10.0
LATEST = -1


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("recorded")) as started:
        yield started


class Asking:
    """Asks every broker at the end of each recorded step, as the recorded client did."""

    def __init__(self, name: str, processes: Processes) -> None:
        steps = recording_of(name)["steps"]
        self._recorded = {end + 1: step for end, step in zip(end_of_steps(name), steps, strict=True)}
        self._processes = processes
        self.differences: list[tuple[str, str, object, object]] = []

    def before_command(self, number: int, _command: Step) -> None:
        step = self._recorded.get(number)
        if step is None:
            return
        for broker, then in step["replicas"].items():
            if "hw_as_leader" in then:
                self._compare(step, f"offsets at {broker}", self._latest(int(broker)), then["hw_as_leader"])
            elif "as_leader" in then and then.get("believes") != {}:
                # A broker of ours that knows nothing yet lets clients wait instead of refusing them.
                refused = name_of_error(then["as_leader"])
                self._compare(step, f"offsets at {broker}", self._latest(int(broker)), refused)
        for client in step.get("client", ()):
            if "consume_from" in client:
                told = (name_of_error(client["err"]), client["hw"], client["sees"])
                broker = client["consume_from"]
                self._compare(step, f"a fetch at {broker}", self._fetched(broker), told)

    def _compare(self, step: Any, what: str, found: object, told: object) -> None:
        if found != told:
            self.differences.append((step["action"], what, found, told))

    def _ask(self, broker: int, api: Api, version: int, body: Any) -> Any:
        at = self._processes.brokers[broker].at
        assert at is not None
        return self._processes.run(ask((at.host, at.port), api, version, body, ANSWER_SECONDS))

    def _latest(self, broker: int) -> object:
        part = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
        topic = ListOffsetsTopic(name="t", partitions=[part])
        body = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
        answer = self._ask(broker, Api.LIST_OFFSETS, 5, body).topics[0].partitions[0]
        return answer.offset if answer.error_code == 0 else ErrorCode(answer.error_code).name

    def _fetched(self, broker: int) -> tuple[str, int, list[str | None]]:
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            topics=[FetchTopic(topic="t", partitions=[part])],
        )
        answer = self._ask(broker, Api.FETCH, 11, body).responses[0].partitions[0]
        return ErrorCode(answer.error_code).name, answer.high_watermark, values_in(answer.records or b"")


def values_in(records: bytes) -> list[str | None]:
    values: list[str | None] = []
    position = 0
    while position < len(records):
        batch = RecordBatch.parse(records, position)
        values += [one.value for one in as_memory(batch)]
        position += batch.size
    return values


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_is_as_recorded(processes: Processes, name: str) -> None:
    """The same values as in the simulator, at the pace that this machine keeps."""

    def play(pace: Pace) -> None:
        asking = Asking(name, processes)
        run = play_on_cluster(scenario_of(name, then="settle"), processes, pace, asking.before_command)
        check(name, run)
        assert asking.differences == []

    *faster, slowest = suitable_paces()
    for pace in faster:
        try:
            play(pace)
        except AssertionError:
            continue  # a busy machine falls behind a fast clock
        return
    play(slowest)
