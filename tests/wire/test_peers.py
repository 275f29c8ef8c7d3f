"""Every message in every version, byte for byte, against independent codecs."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.index import api_key_map
from tests.wire.peers import KINDS, KafkaPython, KafkaPythonOld, Kio, message_class
from tests.wire.values import exchanges, plain, samples

from tidelog.broker.apis import offered
from tidelog.wire.api_keys import Api, ApiSchema
from tidelog.wire.codec import decode, encode

KIO, KAFKA_PYTHON, KAFKA_PYTHON_OLD = Kio(), KafkaPython(), KafkaPythonOld()

EVERYTHING = [(known, kind, version) for known, version in exchanges() for kind in KINDS]
# Only brokers speak these, and Kafka 4 dropped them (AlterIsr is as in 2.7, the last two are ours): no peer
# has them. `test_between_brokers` checks them against bytes written out by hand.
WITHOUT_PEER = {
    Api.LEADER_AND_ISR,
    Api.STOP_REPLICA,
    Api.UPDATE_METADATA,
    Api.CONTROLLED_SHUTDOWN,
    Api.ALTER_ISR,
    Api.VOTE,
    Api.RELIEVE_REPLICA,
}


def spoken_by(peer: Any) -> list[Any]:
    return [
        pytest.param(known, kind, version, id=f"{message_class(known, kind).__name__}-v{version}")
        for known, kind, version in EVERYTHING
        if known.api not in WITHOUT_PEER and peer.speaks(known, kind, version)
    ]


def test_keys_and_names_are_kafkas() -> None:
    """All that Kafka 4 has, as another codec lists them; besides, what Kafka 4 dropped, and ours."""
    ours = {int(api): api.name.lower() for api in Api}
    ours |= {Api.KRAFT_VOTE: "vote", Api.ALTER_ISR: "alter_partition"}
    assert ours.items() >= api_key_map.items()
    assert ours.keys() - api_key_map.keys() == WITHOUT_PEER - {Api.ALTER_ISR}


def test_all_that_clients_send_has_a_peer() -> None:
    """No message of theirs goes unchecked because no other codec has it."""
    peers = (KIO, KAFKA_PYTHON, KAFKA_PYTHON_OLD)
    lonely = {
        known.api
        for known, kind, version in EVERYTHING
        if known.api in WITHOUT_PEER or not any(peer.speaks(known, kind, version) for peer in peers)
    }
    assert lonely == WITHOUT_PEER
    assert lonely.isdisjoint(listed.api_key for listed in offered())


def check(peer: Any, known: ApiSchema, kind: str, version: int) -> None:
    flexible = known.flexible(version)
    for message in samples(message_class(known, kind), version, flexible):
        if peer is KAFKA_PYTHON and known.api == Api.API_VERSIONS and kind == "response":
            message.error_code = 0
        data = encode(message, version, flexible)
        theirs, again = peer.read_and_write(known, kind, version, data)
        assert theirs == peer.view(plain(message, version))
        assert again == data
        assert decode(type(message), version, flexible, again) == message


@pytest.mark.parametrize(("known", "kind", "version"), spoken_by(KIO))
def test_agrees_with_kio(known: ApiSchema, kind: str, version: int) -> None:
    """kio reads what we meant, writes the same bytes, and we read those as what was meant."""
    check(KIO, known, kind, version)


@pytest.mark.parametrize(("known", "kind", "version"), spoken_by(KAFKA_PYTHON))
def test_agrees_with_kafka_python(known: ApiSchema, kind: str, version: int) -> None:
    """kafka-python reads what we meant, writes the same bytes, and we read those as what was meant."""
    check(KAFKA_PYTHON, known, kind, version)


@pytest.mark.parametrize(("known", "kind", "version"), spoken_by(KAFKA_PYTHON_OLD))
def test_agrees_with_classes_written_per_version(known: ApiSchema, kind: str, version: int) -> None:
    """A class written by hand for this one version reads what we meant and writes the same bytes."""
    check(KAFKA_PYTHON_OLD, known, kind, version)
