"""Whether the client library takes the settings of a load: asked before anything is started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidelog.errors import Refusal
from tidelog.trials.load.librdkafka import SILENT, common_settings, consumer_settings, producer_settings
from tidelog.trials.load.workload import Workload

# What a record was promised, and where a reader is: the evidence would say something else than what happened.
_OPTIONS: Final = {
    "acks": "--acks",
    "bootstrap.servers": "--bootstrap-servers",
    "delivery.timeout.ms": "--delivery-timeout",
    "enable.idempotence": "--idempotence",
    "message.timeout.ms": "--delivery-timeout",
    "metadata.broker.list": "--bootstrap-servers",
    "request.required.acks": "--acks",
}
_OWN: Final = (
    "auto.offset.reset",
    "client.id",
    "delivery.report.only.error",
    "enable.auto.commit",
    "enable.partition.eof",
    "group.id",
    "transactional.id",
)
_NOWHERE: Final[dict[str, Any]] = {**SILENT, "bootstrap.servers": ""}
"""Such a client connects to nothing."""


def check_clients(work: Workload) -> None:
    """Make clients of every kind, and let them go. Raises `Refusal`; it names the setting that is refused."""
    for name in work.client:
        if name in _OPTIONS:
            raise Refusal(f"--client {name}: give {_OPTIONS[name]} instead")
        if name in _OWN:
            raise Refusal(f"--client {name}: a trial sets it itself, leave it out")
    why = _refused(work)
    if why is None:
        return
    for name, value in work.client.items():
        if alone := _refused(replace(work, client={name: value})):
            raise Refusal(f"--client {name}={value}: librdkafka refuses it: {alone}")
    raise Refusal(f"librdkafka refuses the settings of the clients: {why}")


def _refused(work: Workload) -> str | None:
    producers = {(plan.acks, plan.idempotent): plan for plan in work.producer_plans("", 1, _no_server)}
    reader = work.final_reader({}, _no_server)
    try:
        AdminClient(common_settings("trial", "") | _NOWHERE | work.client)
        for plan in producers.values():
            Producer(producer_settings(plan) | _NOWHERE)
        Consumer(consumer_settings(reader) | _NOWHERE).close()
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:  # a setting that takes a function
        return str(error)
    return None


def _no_server(client: str, zone: str) -> str:
    return ""
