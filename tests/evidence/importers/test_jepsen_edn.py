"""EDN is read as it is defined, form by form, and what is not EDN is named by line and column."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.evidence.importers.jepsen import edn
from tidelog.evidence.importers.jepsen.edn import EdnError, Keyword, Symbol, Tagged, read_forms, written


def read(text: str) -> list[Any]:
    return list(read_forms(io.StringIO(text)))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-12", -12),
        ("+3", 3),
        ("12345678901234567890N", 12345678901234567890),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("-2.5e3", -2500.0),
        ("1e2M", 100.0),
        ("##Inf", math.inf),
        ('"a\\"b\\n\\u00e9"', 'a"b\né'),
        ('"two\nlines"', "two\nlines"),
        ("\\a", "a"),
        ("\\newline", "\n"),
        ("\\u0041", "A"),
        (":ok", Keyword("ok")),
        (":jepsen.history/op?", Keyword("jepsen.history/op?")),
        ("a.b/c'", Symbol("a.b/c'")),
        ("-", Symbol("-")),
        ("/", Symbol("/")),
        ("{:a 1, :b [2 (3)]}", {Keyword("a"): 1, Keyword("b"): (2, (3,))}),
        ("{[1 2] 3}", {(1, 2): 3}),
        ("#{1 #{2}}", frozenset({1, frozenset({2})})),
        ("#{{:a 1}}", frozenset({frozenset({(Keyword("a"), 1)})})),
        ('#inst "2026"', Tagged("inst", "2026")),
        ("#jepsen.history.Op{:f :send}", Tagged("jepsen.history.Op", {Keyword("f"): Keyword("send")})),
        ('#object[java.Thing 0x2a "x"]', Tagged("object", (Symbol("java.Thing"), 42, "x"))),
        ("#_ {:a 1} 2", 2),
        ("#_ #_ 1 2 3", 3),
        ("; nothing\n,, 7 ; seven", 7),
    ],
)
def test_a_form_is_read(text: str, form: Any) -> None:
    assert read(text) == [form]
    assert type(read(text)[0]) is type(form)


def test_a_history_is_a_vector_or_one_form_a_line() -> None:
    """A vector is opened: its elements come one by one."""
    forms = [{Keyword("a"): 1}, (2, 3)]
    assert read("[{:a 1} #_ x [2 3]]") == forms
    assert read("{:a 1}\n#_ x\n") == forms[:1]
    assert read("") == read(" ; nothing\n") == read("[]") == []


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("{:a}", (1, 4), "key that has no value"),
        ("{:a 1\n :a 2}", (2, 6), "a key twice"),
        ("#{1\n1}", (2, 2), "an element twice"),
        ("[1 2", (1, 5), "] is missing"),
        ("[1\n (2 ]", (2, 5), "']' does not belong here"),
        ("\n\n ]", (3, 2), "']' does not belong here"),
        ("{:a 1\n :b 01}", (2, 5), "01 is no number"),
        ("1a", (1, 1), "1a is no number"),
        ("1/2", (1, 1), "1/2 is no number"),
        (":", (1, 1), ": is no keyword"),
        ("a:/", (1, 1), "is no symbol"),
        ('["abc', (1, 2), "this text has no end"),
        ('"a\\q"', (1, 6), "means nothing"),
        ("\\foo", (1, 1), "is no character"),
        ("#foo", (1, 5), "is not followed by a form"),
        ("[#_]", (1, 4), "is not followed by a form"),
        ("[1 @2]", (1, 4), "'@' does not belong here"),
        ("[" * 300, (1, 202), "nested too deeply"),
    ],
)
def test_what_is_no_edn_is_named(text: str, place: tuple[int, int], why: str) -> None:
    with pytest.raises(EdnError) as refused:
        read(text)
    said = str(refused.value)
    assert said.startswith(f"line {place[0]}, column {place[1]}: ")
    assert why in said


def test_places_are_right_far_into_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that was passed is forgotten, its lines are not; and a form may be cut anywhere by a read."""
    monkeypatch.setattr(edn, "_LOOKAHEAD", 2)
    text = '{:key "some text", :n [1 23 456]} ; words\n' * 20
    for chunk in (1, 2, 3, 7):
        monkeypatch.setattr(edn, "_CHUNK", chunk)
        assert read(text) == [{Keyword("key"): "some text", Keyword("n"): (1, 23, 456)}] * 20
        with pytest.raises(EdnError, match=r"line 21, column 3: 01 is no number"):
            read(text + "[ 01]")


_ATOMS = st.one_of(
    st.none(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs"])).map(lambda text: f'"{text}"'),
    st.from_regex(r":[a-z][a-z0-9?!*-]{0,8}", fullmatch=True),
)


def shown(form: Any) -> str:
    match form:
        case list():
            return f"[{' '.join(map(shown, form))}]"
        case dict():
            return f"{{{', '.join(f'{key} {shown(value)}' for key, value in form.items())}}}"
        case None:
            return "nil"
    return form if isinstance(form, str) else repr(form).replace("e+", "e")


def meant(form: Any) -> Any:
    match form:
        case list():
            return tuple(map(meant, form))
        case dict():
            return {meant(key): meant(value) for key, value in form.items()}
        case str():
            return Keyword(form[1:]) if form[0] == ":" else form[1:-1]
    return form


@given(
    st.recursive(
        _ATOMS,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.from_regex(r":[a-z]{1,5}", fullmatch=True), inner, max_size=4)
        ),
    )
)
def test_whatever_is_printed_is_read(form: Any) -> None:
    assert read(f"[{shown(form)}]") == [meant(form)]


def test_values_are_known_by_their_text() -> None:
    """A string is used as it is, everything else is printed as EDN."""
    (form,) = read('[[:a "b" 1 nil true #{2} {:c 3} #d 4]]')
    assert [written(part) for part in form] == [":a", "b", "1", "nil", "true", "#{2}", "{:c 3}", "#d 4"]
