"""The report: what it says, that nothing in the evidence can change what it is, and that it stays small."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.pipeline import samples

from tidelog.narrate.numbers import moment
from tidelog.narrate.phrasebook import Phrase
from tidelog.pipeline.report import render
from tidelog.pipeline.report import timeline as t
from tidelog.pipeline.report.again import command_words
from tidelog.pipeline.report.html import el
from tidelog.pipeline.report.scale import decades, time_marks, value_marks
from tidelog.pipeline.report.words import headline

HOSTILE = (
    "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)> & \x00\x1b[31m \ud800 \u202e"
)


class Page(HTMLParser):
    """A page as a tree of (tag, attributes, children), and a complaint if it is none."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root: list[Any] = []
        self._open: list[tuple[str, list[Any]]] = [("", self.root)]
        self.feed(text)
        self.close()
        assert [tag for tag, _ in self._open] == [""], "not every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        children: list[Any] = []
        self._open[-1][1].append((tag, dict(attrs), children))
        if tag not in ("meta", "br", "input"):
            self._open.append((tag, children))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1][1].append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self._open[-1][1].append(data)

    def all(self, tag: str, within: list[Any] | None = None) -> Iterator[tuple[dict[str, str], list[Any]]]:
        for node in self.root if within is None else within:
            if isinstance(node, tuple):
                if node[0] == tag:
                    yield node[1], node[2]
                yield from self.all(tag, node[2])


def text_of(children: list[Any]) -> str:
    return "".join(child if isinstance(child, str) else text_of(child[2]) for child in children)


def drawn(**changes: Any) -> str:
    return render(samples.verdict(), samples.timeline(**changes), samples.manifest(), "trial-1")


def title(verdict: dict[str, Any], **changes: Any) -> tuple[str, str]:
    page = Page(render(verdict, samples.timeline(), samples.manifest(**changes)))
    (_, sentence), *_ = page.all("h1")
    return text_of(sentence), text_of(next(page.all("header"))[1])


# ---------------------------------------------------------------- what it says


def test_losses_are_the_first_sentence():
    """How many are lost, of how many that were promised, under which settings."""
    sentence, header = title(samples.verdict())
    assert sentence == "137 acknowledged records are lost."
    assert "Of 50,000 that were acknowledged" in header  # those with acks=0 were not promised
    assert "min.insync.replicas=2" in header
    assert "acks=1,all" in header


def test_one_loss_is_one():
    sentence, _ = title(samples.verdict(counts={"lost": {"violation": 1}}))
    assert sentence == "1 acknowledged record is lost."


def test_a_held_promise_is_said_plainly():
    sentence, header = title(samples.held())
    assert sentence == "Every acknowledged record is there."
    assert "All 50,000 of them, after 60 s of load with 1 planned fault." in header


def test_planned_faults_that_were_not_done_do_not_pass_for_done():
    """Nor does a verdict that does not say how many were."""
    planned = samples.manifest().schedule * 3
    _, header = title(samples.held(), schedule=planned)
    assert "after 60 s of load with 1 of 3 planned faults." in header
    verdict = samples.held()
    del verdict["totals"]["faults"]
    _, header = title(verdict, schedule=planned)
    assert "after 60 s of load with 3 planned faults." in header


def test_other_broken_promises_do_not_pass_for_losses():
    sentence, header = title(samples.verdict(counts={"diverged": {"violation": 2}}))
    assert sentence == "2 offsets at which replicas disagree."
    assert "None of 50,000 acknowledged records is lost, but" in header


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"conclusive": False}, "It is not known whether a record was lost."),
        ({"totals": {}}, "There is nothing to judge."),
        ({"totals": {"sends": {"total": 3, "unknown": 3}}}, "Nothing was acknowledged."),
    ],
)
def test_what_was_not_judged_is_not_praised(changes: dict[str, Any], sentence: str):
    """ "Every acknowledged record is there" is said only where the logs could be read, and there was one."""
    assert title(samples.held() | changes)[0] == sentence


def test_causes_are_grouped_and_illustrated():
    """Each cause with how many it explains, a story and a few examples; the rest is called unexplained."""
    page = Page(drawn())
    causes = [
        text_of(children) for attributes, children in page.all("div") if attributes.get("class") == "cause"
    ]
    assert "120 × truncated to its own high watermark" in causes[0]
    assert "broker 2 cut off p3-0" in causes[0]
    assert "5 examples" in causes[0]
    assert "17 × unexplained" in causes[1]
    assert "unseen: there was no final read" in text_of(page.root)


def test_a_story_is_told_in_the_language_of_the_page():
    """From its phrases, a reason within included; as the audit wrote it, where phrases are not known."""
    reason = Phrase("TruncationRule.LEADER_LOG_SHORTER")
    cut: dict[str, Any] = {"broker": 2, "before": 9, "after": 7, "why": reason, "at": "1.000 s"}
    english, chinese = _with_story(["p1", Phrase("cause.truncated", cut).as_json()])
    assert "p1; broker 2 truncated from 9 to 7 (the leader's log is shorter) at 1.000 s" in english
    assert "p1；broker 2 在 1.000 s 把日志从 9 截断到 7（leader 的日志更短）" in chinese
    for unknown in ([{"key": "cause.of another version"}], [{"fields": 1}], [{"key": "cause.led"}]):
        assert all("broker 2 cut off p3-0" in page for page in _with_story(unknown))


def test_details_and_what_was_not_judged_are_told_in_the_language_of_the_page():
    """As the audit wrote them, where phrases are not known."""
    detail, why = Phrase.of("detail.acknowledged", acks="all"), Phrase("unjudged.no_events")
    said = samples.verdict() | {"not_judged": [why.as_json()]}
    said["examples"]["lost"][0] |= {"detail": "as it was", "said": detail.as_json()}
    english, chinese = _in_both_languages(said)
    assert "acknowledged with acks=all" in english
    assert "以 acks=all 确认" in chinese
    assert "there are no events of brokers" in english
    assert "没有 broker 的事件" in chinese
    said["examples"]["lost"][0]["said"] = {"key": "detail.of another version"}
    assert all("as it was" in page for page in _in_both_languages(said))


def _with_story(story: list[Any]) -> list[str]:
    said = samples.verdict()
    said["examples"]["lost"][0]["story"] = story
    return _in_both_languages(said)


def _in_both_languages(said: dict[str, Any]) -> list[str]:
    tree = Page(render(said, samples.timeline(), samples.manifest()))
    languages = ("en", "zh-Hans")
    return [text_of(next(c for a, c in tree.all("div") if a.get("lang") == each)) for each in languages]


def test_a_finding_links_to_its_moment_and_its_partition():
    """Both are places of the same page, in the reader's language; the moment counts from the load's start."""
    said = samples.verdict()
    for example in said["examples"]["lost"]:
        example["time_us"] = 1_000_000 + 12_340_000
    page = render(said, samples.timeline(), samples.manifest())
    for language in ("en", "zh"):
        assert f'<a href="#{language}-at-12340">12.340 s</a>' in page
        assert f'id="{language}-at-12340" class="moment" style="--at:0.2057"' in page
        assert f'<a href="#{language}-lane-2">trial-2</a>' in page


def test_every_link_leads_somewhere():
    """No place is missing, none is there twice, and the contents name every heading."""
    page = drawn()
    places = re.findall(r' id="([^"]+)"', page)
    assert len(places) == len(set(places))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(places)
    tree = Page(page)
    for (_, contents), (_, body) in zip(tree.all("nav"), tree.all("main"), strict=True):
        headings = [text_of(children) for _, children in tree.all("h2", body)]
        assert [text_of(children) for _, children in tree.all("a", contents)] == headings


def test_it_speaks_chinese_too():
    """All of it but what the audit wrote in English, which is marked as such."""
    tree = Page(drawn())
    (chinese,) = (c for a, c in tree.all("div") if a.get("lang") == "zh-Hans")
    assert text_of(next(tree.all("h1", chinese))[1]) == "137 条已确认的消息丢失。"
    known = {*samples.verdict()["examples"], "truncated to its own high watermark", "sent again"}
    spoken = [
        text_of(children)
        for tag in ("h2", "h3", "dt", "th", "summary", "figcaption")
        for _, children in tree.all(tag, chinese)
    ]
    left = [text for text in spoken if text and not re.search("[\u4e00-\u9fff]", text)]
    assert {text for text in left if not any(word in text for word in known)} <= {"acks"}


def test_no_value_is_shown_as_json():
    """Lists, missing values, acks=all and an empty ISR are words."""
    workload: dict[str, object] = {
        "acks": [1, -1],
        "retries": None,
        "client": {},
        "zones": ["a", "b"],
        "compact": True,
    }
    line = samples.timeline()
    line.partitions[0].states = [t.StateSpan(0, 9_000, -1, 3, ())]
    told = samples.manifest(settings={"workload": workload}, generation="")
    page = render(samples.verdict(), line, told)
    text = text_of(Page(page.partition("<body>")[2].partition("</body>")[0]).root)
    for raw in ("[", "{", "null", "None", "True"):
        assert raw not in text.partition("from tidelog.pipeline")[0], raw
    assert "load: acks1, all" in text
    assert "load: retriesdefault" in text
    assert "no replica in sync" in page


def test_the_command_repeats_the_trial():
    """Every option that was not its default is there."""
    words = command_words(samples.manifest(), "trial-1")
    assert words[:4] == ["tidelog", "trial", "--schedule", "trial-1/trial.json"]
    line = " ".join(words)
    assert "--generation hw" in line
    assert "--acks 1,all" in line
    assert "--rate 500" in line
    assert "--producers" not in line


def test_a_simulated_run_is_repeated_by_its_scenario():
    manifest = samples.manifest(settings={"text": "scenario s <b>"})
    manifest.stage = "sim"
    page = render(samples.held(), t.Timeline(), manifest)
    assert "scenario s &lt;b&gt;" in page
    assert 'href="http://127.0.0.1:8484/#/p/' in page
    assert "tidelog replay" in page


# ---------------------------------------------------------------- what it is


def test_it_needs_nothing_from_elsewhere():
    """No script, no address: it can be opened from a mail, offline."""
    page = drawn()
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert '<meta name="viewport"' in page


def test_it_is_the_same_every_time():
    assert drawn() == drawn()


def test_faults_stand_where_they_were_done():
    """In the lane of each broker they concern, also by its zone; what only says how much has none."""
    line = samples.timeline()
    line.faults = [
        t.FaultSpan(0, "zone", ("az2",), 0, 9_000, None),
        t.FaultSpan(1, "delay", ("1>3", "300ms"), 10_000, 19_000, None),
        t.FaultSpan(2, "elect", (), 20_000, 20_000, None),
        t.FaultSpan(3, "kill", ("²",), 30_000, 39_000, None),
    ]
    page = Page(render(samples.held(), line, samples.manifest()))
    names = next(c for a, c in page.all("div") if a.get("class") == "y names")
    assert [text_of(name[2]) for name in names] == ["broker 1", "broker 2", "broker 3", "elect", "kill"]


def test_every_chart_is_labelled():
    """A caption, a unit, both axes, and a description for those who cannot see it."""
    page = Page(drawn())
    figures = list(page.all("figure"))
    assert len(figures) >= 9
    for _, children in figures:
        caption = text_of(next(page.all("figcaption", children))[1])
        assert len(caption) > 5
        ((picture, _),) = page.all("svg", children)
        assert picture["role"] == "img"
        assert picture["aria-label"]
        frames = {a.get("class", "").split()[0]: c for a, c in page.all("div", children) if a.get("class")}
        assert text_of(frames["y"]).strip(), caption
        assert "10 s" in text_of(frames["x"]), caption


def test_hostile_text_stays_text():
    """Names, values, causes and errors may be any text; none of it becomes a tag or breaks the page."""
    said = samples.verdict(
        unjudged=[HOSTILE],
        counts={HOSTILE: {"violation": 2}, "lost": {"violation": 1}},
        causes=[
            {"anomaly": anomaly, "severity": "violation", "rule": HOSTILE, "explained": True, "count": 1}
            for anomaly in ("lost", HOSTILE)
        ],
        examples={
            "lost": [
                {"severity": "violation"}
                | dict.fromkeys(
                    ("value", "topic", "partition", "producer", "detail", "rule", "cause"), HOSTILE
                )
            ]
        },
    )
    line = samples.timeline(topic=HOSTILE)
    line.faults = [t.FaultSpan(0, HOSTILE, (HOSTILE,), 0, 90, HOSTILE)]
    line.reads = [t.Reads(0, HOSTILE, 5)]
    told = samples.manifest(
        generation=HOSTILE,
        brokers=[{"id": HOSTILE, "zone": HOSTILE}],
        topics=[{"name": HOSTILE, "partitions": 1, "replication_factor": 1, "configs": {HOSTILE: HOSTILE}}],
        settings={"workload": {HOSTILE: HOSTILE, "client": {HOSTILE: HOSTILE}}},
        versions={HOSTILE: HOSTILE},
    )
    page = render(said, line, told, HOSTILE)
    page.encode("utf-8")
    assert "\x00" not in page
    assert "<script" not in page
    assert "<img" not in page
    assert _tags(page) <= _tags(drawn())
    Page(page)


def _tags(page: str) -> set[str]:
    return set(re.findall(r"<([a-z0-9]+)", page))


def test_attributes_cannot_be_left():
    assert el("a", title='"><b>') == '<a title="&quot;&gt;&lt;b&gt;"></a>'


def test_no_evidence_is_a_page_too():
    """Nothing to draw: the verdict, and no empty frames."""
    page = Page(render({}, t.Timeline(), samples.manifest(topics=[], brokers=[], schedule=[], settings={})))
    assert not list(page.all("figure"))
    assert "There is nothing to judge." in text_of(page.root)


def test_it_stays_small():
    """At all bounds of the timeline at once, and with texts without end, a report is under 1 MB."""
    example = {
        "severity": "violation",
        "rule": "r",
        "value": "v" * 5000,
        "cause": "c" * 5000,
        "detail": "d" * 5000,
    }
    said = samples.verdict(
        counts={f"anomaly {n}": {"violation": 20} for n in range(16)},
        examples={f"anomaly {n}": [example] * 20 for n in range(16)},
        unjudged=["u" * 5000] * 1000,
    )
    line = samples.timeline(
        buckets=t.COARSE_MAX, partitions=t.PARTITIONS_MAX, spans=t.BUCKETS_MAX, faults=t.FAULTS_MAX
    )
    page = render(said, line, samples.manifest(), "trial-1")
    assert len(page.encode()) < 1_000_000


# ---------------------------------------------------------------- axes


def test_marks_are_round_and_few():
    assert value_marks(970) == [0, 500, 1000]
    assert value_marks(0.3) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert value_marks(0) == [0, 1]
    assert decades(3, 4200) == [1, 10, 100, 1000, 10_000]
    for span in (1, 7, 999, 60_000, 86_400_000, 10**12):
        marks = time_marks(span)
        assert len(marks) <= 12
        assert marks[0] == (0, "0")


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (12_340, "12.3 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "125 min"),
        (86_400_000, "24 h"),
    ],
)
def test_moments_are_words(ms: int, words: str):
    assert moment(ms) == words


def test_one_event_is_counted_once_in_the_headline() -> None:
    """A record that was replaced is lost, rewritten and acknowledged twice: the headline counts the loss."""
    counts = {name: {"violation": 3, "notice": 0} for name in ("lost", "rewritten", "reordered")}
    found = headline(samples.verdict(counts=counts), samples.manifest())
    assert found.text == "3 acknowledged records are lost."
    assert "Also 3 records out of order." in found.more
    assert "The same shows as 3 records rewritten after they were read." in found.more
