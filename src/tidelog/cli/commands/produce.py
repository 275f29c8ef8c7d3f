"""``tidelog produce``: write records to a topic, from the command line or from stdin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import ServersOption, TopicArgument, one_of, servers_of, value
from tidelog.cli.show.output import write_text
from tidelog.cli.show.written import WrittenRanges
from tidelog.errors import Refusal

if TYPE_CHECKING:
    from tidelog.kafka_client.writing import Outgoing

EXAMPLES = """\b
Examples:
  tidelog produce events hello world           two records
  tidelog produce events --key user-1 hello    a record with a key
  tidelog produce events < lines.txt           one record for each line
  tidelog produce events -s : < pairs.txt      lines like key:value
  tidelog produce events --count 1000          1000 numbered records

\b
Exit code: 0 every record was acknowledged, 1 some were not, 2 wrong usage.
"""

ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[VALUE…]", help="One record for each value.", show_default="the lines of stdin"),
]
KeyOption = Annotated[str | None, value("KEY", "Key of the values.", "--key", "-k", default=False)]
SeparatorOption = Annotated[
    str | None,
    value(
        "SEP", "Split each line at the first SEP into key and value.", "--key-separator", "-s", default=False
    ),
]
CountOption = Annotated[
    int | None, value("N", "Write N records with the values 1 to N.", default=False, min=1, max=10_000_000)
]
PartitionOption = Annotated[
    int | None,
    value("N", "Partition to write to.", "--partition", "-p", default="by the key, else in turn", min=0),
]
AcksOption = Annotated[
    str, value("A", "Acknowledged by all in-sync replicas (all), or by the leader alone (1).", "--acks")
]
TimeoutOption = Annotated[float, value("S", "Seconds until a record is given up.", "--timeout", min=0.1)]

_CHUNK_BYTES = 64 * 1024
_CHUNK_RECORDS = 5_000


def produce(
    topic: TopicArgument,
    values: ValuesArgument = None,
    *,
    key: KeyOption = None,
    key_separator: SeparatorOption = None,
    count: CountOption = None,
    partition: PartitionOption = None,
    acks: AcksOption = "all",
    timeout: TimeoutOption = 30.0,
    bootstrap_servers: ServersOption = None,
) -> int:
    """Write records to a topic.

    Waits for the acknowledgement of each record, and sends it again to the new leader after a fail-over. With
    --acks all a record that is sent again is stored once (the producer is idempotent).
    """
    if sum((bool(values), count is not None, key_separator is not None)) > 1:
        raise Refusal("choose one of VALUE, --count and --key-separator")
    if key is not None and key_separator is not None:
        raise Refusal("choose one of --key and --key-separator")
    if key_separator == "":
        raise Refusal("--key-separator is empty: give the text between key and value, such as :")
    acks_wanted = {"all": -1, "1": 1}[one_of("acks", acks, ("all", "1"))]
    from tidelog.cli.show.waiting import Waiting
    from tidelog.kafka_client.blocking import ClientError
    from tidelog.kafka_client.writing import Outgoing, Writer

    def outgoing(text: bytes) -> Outgoing:
        chosen: bytes | None = key.encode() if key is not None else None
        if key_separator is not None:
            chosen, found, rest = text.partition(key_separator.encode())
            if not found:
                raise Refusal(f"a line without {key_separator!r}: {text[:80].decode(errors='replace')}")
            text = rest
        return Outgoing(chosen, text, partition)

    written = WrittenRanges(topic)
    with (
        Waiting() as waiting,
        Writer(
            servers_of(bootstrap_servers), topic, acks=acks_wanted, timeout_s=timeout, on_wait=waiting.now
        ) as writer,
    ):
        if partition is not None and partition not in writer.partitions:
            raise Refusal(f"{topic} has partitions 0 to {len(writer.partitions) - 1}, not {partition}")
        try:
            for texts in _chunks(values, count):
                for done in writer.write([outgoing(text) for text in texts]):
                    waiting.over()
                    written.add(done)
        except ClientError as error:
            waiting.over()
            write_text(written.summary())
            print(f"tidelog: {error}", file=sys.stderr)
            return ExitCode.VIOLATED
    write_text(written.summary())
    return ExitCode.HELD


def _chunks(values: list[str] | None, count: int | None) -> Iterator[list[bytes]]:
    if values:
        yield [each.encode() for each in values]
    elif count is not None:
        for start in range(1, count + 1, _CHUNK_RECORDS):
            yield [str(number).encode() for number in range(start, min(start + _CHUNK_RECORDS, count + 1))]
    else:
        yield from _lines()


def _lines() -> Iterator[list[bytes]]:
    """The lines of stdin, as many at a time as there are: a line that is typed is sent at once."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]
