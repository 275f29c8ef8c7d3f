"""Apache Kafka's own consumer in a group, and its own tool reading what the coordinator wrote about it."""

from __future__ import annotations

import subprocess
import uuid

import pytest
from bench.apache_kafka import tool_command
from bench.processes import PATIENCE_SECONDS
from tests.clients.conftest import Cluster, Topics
from tests.clients.drivers.base import Outgoing
from tests.clients.drivers.confluent import Confluent

pytestmark = pytest.mark.slow


def java(program: str, *arguments: str) -> str:
    """What a tool of Kafka's says, without its complaints."""
    command = [*tool_command(program), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    ).stdout


def test_java_member_and_kafka_decoder(cluster: Cluster, topics: Topics) -> None:
    """The Java consumer subscribes, reads and commits; DumpLogSegments decodes group and position, in the
    partition where Java's hash says they are."""
    topic, group = topics.new(), f"group-{uuid.uuid4().hex[:12]}"
    Confluent(cluster.bootstrap_servers).produce(topic, [Outgoing(b"%d" % number) for number in range(10)])
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    limits = ("--from-beginning", "--max-messages", "10", "--timeout-ms", "60000")
    wanted = ("--topic", topic, "--group", group)
    read = java("org.apache.kafka.tools.consumer.ConsoleConsumer", *servers, *wanted, *limits)
    assert read.split() == [str(number) for number in range(10)]
    if not cluster.data_dirs:
        return
    logs = {path for folder in cluster.data_dirs for path in folder.glob("__consumer_offsets-*/*.log")}
    holding = [path for path in logs if group.encode() in path.read_bytes()]
    assert len({path.parent.name for path in holding}) == 1
    told = java("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(holding[0]))
    assert f'key: {{"type":"2","data":{{"group":"{group}"}}}}' in told
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in told
    assert f'"group":"{group}","topic":"{topic}","partition":0}}}} payload: ' in told
    assert '{"version":"3","data":{"offset":10,' in told
