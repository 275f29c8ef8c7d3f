"""The tables of evidence: one schema, whole files or none, and a page that says the same."""

import runpy
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.evidence.specimens import ME, SPECIMENS

from tidelog.evidence.event_schema import to_row
from tidelog.evidence.parquet.parts import (
    PartWriter,
    arrow_rows,
    arrow_schema,
    part_files,
    read_table,
    rows_of,
    write_part,
)
from tidelog.evidence.tables import EVENTS, FAULTS, LEDGER, READS, SCHEMA_VERSION, TABLES, Table, value_id

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_has_an_arrow_schema(table: Table):
    """With all its columns, its name and the version; its identity is made of its columns."""
    schema = arrow_schema(table)
    assert schema.names == [column.name for column in table.columns]
    assert schema.metadata[b"tidelog.table"] == table.name.encode()
    assert schema.metadata[b"tidelog.schema_version"] == str(SCHEMA_VERSION).encode()
    assert set(table.identity) <= set(schema.names)


def test_the_page_is_made_from_the_tables():
    page = runpy.run_path(str(ROOT / "docs/reference/make_evidence.py"))["page"]()
    assert page == (ROOT / "docs/reference/evidence.md").read_text("utf-8")


def test_a_value_is_known_by_its_first_word():
    assert value_id("p1-7 ......") == "p1-7"
    assert value_id("a") == "a"


def test_every_event_comes_back_as_it_was(tmp_path: Path):
    """The rows that brokers write as JSON are the rows of the table, column by column."""
    rows = [to_row(event, 1000 + n, ME, process_start_ms=5, sequence=n) for n, event in enumerate(SPECIMENS)]
    writer = PartWriter(tmp_path / "events", EVENTS)
    for row in rows:
        writer.write(row)
    writer.close()
    as_lists = [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in rows]
    assert list(rows_of(tmp_path, EVENTS)) == as_lists


@pytest.mark.parametrize("table", [LEDGER, READS], ids=lambda table: table.name)
def test_files_from_before_there_were_transactions_are_read(tmp_path: Path, table: Table):
    """A column that a file does not have is null, beside files that have it."""
    old = arrow_rows(table, [{"topic": "t", "offset": 1}]).drop_columns(["transaction"])
    write_part(tmp_path / table.name, "part-000000", old)
    write_part(tmp_path / table.name, "part-000001", arrow_rows(table, [{"topic": "t", "transaction": "t1"}]))
    assert read_table(tmp_path, table, ["topic", "transaction"]).to_pylist() == [
        {"topic": "t", "transaction": None},
        {"topic": "t", "transaction": "t1"},
    ]


def test_rows_go_into_numbered_files_of_bounded_size(tmp_path: Path):
    """A file is complete after so many rows, or when its first row is so old."""
    now = [0.0]
    writer = PartWriter(tmp_path / "faults", FAULTS, "f", rows_max=10, seconds_max=5.0, clock=lambda: now[0])
    for number in range(25):
        writer.write({"number": number})
    assert [path.name for path in part_files(tmp_path / "faults")] == ["f-000000.parquet", "f-000001.parquet"]
    now[0] = 6.0
    writer.write({"number": 25})
    assert len(part_files(tmp_path / "faults")) == 3
    writer.close()
    assert [row["number"] for row in rows_of(tmp_path, FAULTS)] == list(range(26))


def test_a_column_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="no such column of faults: colour"):
        arrow_rows(FAULTS, [{"number": 1, "colour": "red"}])


def test_a_table_that_nobody_wrote_is_empty(tmp_path: Path):
    assert read_table(tmp_path, LEDGER).num_rows == 0
    assert read_table(tmp_path, LEDGER, ["producer"]).column_names == ["producer"]


def test_an_unfinished_file_is_not_seen(tmp_path: Path):
    """Neither by this package nor by other readers, which skip hidden files."""
    folder = tmp_path / "faults"
    write_part(folder, "part-000000", arrow_rows(FAULTS, [{"number": 1}]))
    (folder / ".part-000001.parquet.tmp").write_bytes(b"PAR1 half of a file")
    assert list(rows_of(tmp_path, FAULTS)) == [{"number": 1}]
    assert pq.read_table(folder).num_rows == 1


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    """No half file under the right name, none under the other one."""
    folder = tmp_path / "faults"
    with pytest.raises(AttributeError):
        write_part(folder, "part-000000", "not a table")
    assert list(folder.iterdir()) == []
