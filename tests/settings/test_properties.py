"""Java properties files: every rule of the format, and writing that Java and we read back alike."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.settings.properties import PropertiesError, assignment, dump, latest, parse, read, write


def values(text: str) -> dict[str, str]:
    return {name: entry.value for name, entry in latest(parse(text, "x.properties")).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a == 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("   a=1\n\n\t# no\n!no\n  b=2", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=one\\\n\nb=2", {"a": "one", "b": "2"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("# no \\\na=1", {"a": "1"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\r\\f\\x\\\\", {"a": "\t\n\r\fx\\"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=http://h:1/x?y=z", {"a": "http://h:1/x?y=z"}),
        ("", {}),
    ],
)
def test_the_rules_of_the_format(text: str, expected: dict[str, str]):
    """Separators, comments, continuations and escapes mean what they mean to Java."""
    assert values(text) == expected


def test_an_entry_knows_its_line():
    """Also behind comments and continuations, where it is the line in which the entry begins."""
    entries = parse("# one\na=1\nb=2,\\\n  3\nc=4\n", "x.properties")
    assert [entry.where for entry in entries] == [f"line {n} of x.properties" for n in (2, 3, 5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\n=2", "'=2': expected name=value, line 2 of x.properties"),
        ("a=\\u12", r"'\\u12': \u needs four hexadecimal digits, line 1 of x.properties"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str):
    with pytest.raises(PropertiesError) as caught:
        parse(text, "x.properties")
    assert str(caught.value) == message


def test_an_unreadable_file_is_one_line(tmp_path: Path):
    with pytest.raises(PropertiesError, match="no such file"):
        read(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"a=\xe9")
    with pytest.raises(PropertiesError, match="UTF-8"):
        read(tmp_path / "latin")


def test_an_assignment_takes_its_value_as_it_is():
    """On a command line a backslash is a backslash, and only the first = divides."""
    assert assignment("a=b=c\\t", "--set")[:2] == ("a", "b=c\\t")
    for wrong in ("a", "=1", ""):
        with pytest.raises(PropertiesError, match="expected name=value, --set"):
            assignment(wrong, "--set")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(texts.filter(bool), texts, max_size=5))
def test_what_is_written_is_read_back(entries: dict[str, str]):
    """Whatever the names and values; and the text is ASCII, which Java reads the same way."""
    text = dump(entries, "a comment\nof two lines")
    assert text.isascii()
    assert values(text) == entries


def test_a_file_is_replaced_as_a_whole(tmp_path: Path):
    path = tmp_path / "b.properties"
    write(path, {"a": "1"})
    write(path, {"b": "é"}, "new")
    assert [entry[:2] for entry in read(path)] == [("b", "é")]
    assert list(tmp_path.iterdir()) == [path]
