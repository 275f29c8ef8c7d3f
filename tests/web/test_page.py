"""The page in a real browser: every scenario to its end, forks, comparison, links, keys, bad input."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call
from tests.web.browsing import Opened

from tidelog.lab.play import run
from tidelog.narrate.run import run_json
from tidelog.scenario import catalogue
from tidelog.scenario.links import fragment
from tidelog.scenario.scenario import parse

pytestmark = pytest.mark.slow

# Steps through a scenario one by one, drawing each (or, under one generation, jumps), and reads the last
# picture off the page.
PLAY_TO_THE_END = """
async ([name, generation]) => {
  await lab.open(`#/s/${name}?g=${generation}`);
  const stage = lab.stage;
  if (generation === "epoch") stage.go(stage.last);
  else for (let step = 1; step <= stage.last; step += 1) stage.go(step);
  const rows = {};
  for (const row of document.querySelectorAll(".row")) {
    rows[row.dataset.log] = {
      values: [...row.querySelectorAll(".cell .value")].map((cell) => cell.textContent),
      committed: row.querySelectorAll(".cell.committed").length,
      leo: Number(row.querySelector(".mark.leo").dataset.offset),
      hw: Number(row.querySelector(".mark.hw").dataset.offset),
    };
  }
  const chips = [...document.querySelectorAll(".chip")].map((chip) =>
    [chip.dataset.value, chip.className.replace("chip ", "")]);
  const held = document.querySelector(".verdict").classList.contains("good");
  return { rows, chips, held, leader: stage.plays[0].scene(stage.last)["part/0"].leader };
}
"""


def shown_at_the_end(page: Any, name: str, generation: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(PLAY_TO_THE_END, [name, generation])
    return found


def expected_at_the_end(name: str, generation: str) -> dict[str, Any]:
    """The same facts, from what ``scenario run --json`` prints."""
    told = run_json(run(catalogue.load(name).under(generation)))
    partition = told["partitions"][0]
    lost = {finding["value"] for finding in told["verdict"]["lost"]}
    chips = [[entry["value"], "lost" if entry["value"] in lost else "ok"] for entry in told["acknowledged"]]
    chips += [[entry["value"], entry["outcome"]] for entry in told["failed"]]
    return {
        "rows": {
            f"0/{replica['broker']}": {
                "values": ["·" if value is None else value for _, _, value in replica["records"]],
                "committed": min(replica["hw"], replica["leo"]),
                "leo": replica["leo"],
                "hw": replica["hw"],
            }
            for replica in partition["replicas"]
        },
        "chips": sorted(chips),
        "held": not any(told["verdict"].values()),
        "leader": partition["leader"],
    }


GENERATIONS = ("hw", "epoch")


def test_every_scenario_ends_as_the_command_line_says(opened: Opened) -> None:
    """Each scenario opens, steps to its end, and shows there what the JSON of the command line holds; under
    the generations in turn."""
    page = opened.go()
    for number, name in enumerate(catalogue.names()):
        assert_it_ends_as_it_should(page, name, GENERATIONS[number % len(GENERATIONS)])


@pytest.mark.long
def test_every_scenario_ends_so_under_both_generations(opened: Opened) -> None:
    page = opened.go()
    for name in catalogue.names():
        for generation in GENERATIONS:
            assert_it_ends_as_it_should(page, name, generation)


def assert_it_ends_as_it_should(page: Any, name: str, generation: str) -> None:
    shown = shown_at_the_end(page, name, generation)
    shown["chips"].sort()
    assert shown == expected_at_the_end(name, generation), f"{name} under {generation}"


def test_the_catalogue_lists_every_scenario_with_its_lead(opened: Opened) -> None:
    """The first page names each scenario once, says what one will see, and finds by words."""
    page = opened.go()
    assert page.locator(".card code").all_inner_texts() == catalogue.names()
    assert all(len(lead) > 60 for lead in page.locator(".card a p").all_inner_texts())
    page.fill(".filter", "zombie")
    assert page.locator(".card:visible code").all_inner_texts() == ["kafka-7395-zombie-follower"]
    page.locator(".card:visible > a").click()
    page.wait_for_selector(".stage .scene .broker")
    assert page.evaluate("lab.stage.name") == "kafka-7395-zombie-follower"


def test_an_eligible_replica_has_a_ring_of_its_own(opened: Opened) -> None:
    """Under elr the picture tells the last in-sync replica, an eligible one and neither apart; the legend
    explains the ring only there."""
    page = opened.go("#/s/kip-966-last-replica-standing?g=elr&step=14")
    rings = [
        {"in-isr", "in-elr"} & set((broker.get_attribute("class") or "").split())
        for broker in page.locator(".scene .broker").all()
    ]
    assert rings == [{"in-isr"}, set(), {"in-elr"}, set()]
    label = page.locator(".scene .broker").nth(2).get_attribute("aria-label")
    assert "eligible" in (label or "")
    assert page.locator(".legend .ring-elr").count() == 1
    page.evaluate("lab.open('#/s/kip-966-last-replica-standing?g=epoch&step=14')")
    assert page.locator(".legend .ring-elr").count() == 0


def test_keys_move_through_time(opened: Opened) -> None:
    """Arrows step, with Shift by message; Home and End jump; Space plays to the end."""
    page = opened.go("#/s/watermark-rounds?g=epoch")
    at = "[lab.stage.step, lab.stage.beat]"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(at) == [1, None]
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate(at) == [2, 0]
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(at) == [1, None]
    page.keyboard.press("End")
    assert page.evaluate("lab.stage.step === lab.stage.last")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("]")
    page.keyboard.press("Space")
    opened.until("lab.stage.step >= 2 && lab.stage.playing")
    page.keyboard.press("Space")
    assert not page.evaluate("lab.stage.playing")


def test_motion_can_be_outrun(browser: Any, address: str) -> None:
    """Where motion is wanted messages travel; a reader who is quicker never waits for them."""
    opened = Opened(browser, address, reduced_motion="no-preference")
    page = opened.go("#/s/hw-loss?g=hw")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("lab.stage.step") == 7
    opened.until("document.querySelectorAll('.dot').length === 0")
    opened.until("document.querySelector('.chip[data-value=c]').classList.contains('ok')")
    opened.close()


def test_a_record_turns_red_at_the_step_it_is_lost(opened: Opened) -> None:
    """In hw-loss the ledger says ok for c until broker 1 leads, and lost from then on."""
    page = opened.go("#/s/hw-loss?g=hw&step=20")
    chip = page.locator('.chip[data-value="c"]')
    assert "ok" in (chip.get_attribute("class") or "")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('.chip.lost[data-value="c"]')
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('.chip.ok[data-value="c"]')


def test_what_each_one_knows_is_told_in_words(opened: Opened) -> None:
    """After the append both logs end at 3 and the leader still knows of 2; the next fetch tells it."""
    page = opened.go("#/s/hw-loss?g=epoch&step=5")

    def cell(title: str, row: int) -> str:
        found = page.locator(f'.inside tbody tr:nth-child({row}) [data-title="{title}"]')
        return str(found.text_content())

    assert (cell("Remote LEO", 1), cell("Remote LEO", 2)) == ("1: 2", "–")
    assert cell("leader epoch → start", 2) == "0 → 0"
    assert "the produce of p waits for HW 3" in page.locator(".inside-wait").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    opened.until("lab.stage.step === 7")
    assert (cell("Remote LEO", 1), cell("HW in memory / on disk", 1)) == ("1: 3", "3 / 2")
    assert page.locator(".inside .changed").count() > 0
    assert "leader 0 · epoch 0 · ISR [0,1]" in page.locator(".inside-keeper").inner_text()


def test_a_fork_changes_the_story_and_can_be_undone(opened: Opened) -> None:
    """A click on a message delivers it first; the story goes on from there, and comes back on request."""
    page = opened.go("#/s/hw-loss?g=hw&step=6")
    page.locator(".waiting").click()
    page.get_by_text("Deliver it now").click()
    page.wait_for_selector(".banner.yours")
    opened.until("lab.stage.step === 7")
    text = page.evaluate("lab.stage.text")
    assert text.startswith("scenario hw-loss-mine\n")
    steps = parse(text).steps
    assert [str(step) for step in steps[5:8]] == [
        "wait holds 1 c",
        "deliver fetch 1->0",
        "deliver fetch 1->0",
    ]
    assert page.locator('.chip.ok[data-value="c"]').count() == 1
    page.get_by_role("button", name="Undo").click()
    opened.until("lab.stage.last === 24")
    assert page.evaluate("lab.stage.name") == "hw-loss"


def test_a_fork_at_the_right_step_prevents_the_loss(opened: Opened) -> None:
    """The leader of hw-loss wakes up before the follower is elected, and c survives; as the text replays."""
    page = opened.go("#/s/hw-loss?g=hw&step=19")
    page.locator("g.broker").nth(0).click()
    page.get_by_text("Wake it up").click()
    page.wait_for_selector(".banner.yours")
    page.keyboard.press("End")
    page.wait_for_selector(".verdict")
    page_lost = page.evaluate("lab.stage.recording.verdict.lost.map((found) => found.value)")
    text = page.evaluate("lab.stage.fileText()")
    replayed = run(parse(text))
    assert replayed.scenario.setup.generation == "hw"
    assert [finding["value"] for finding in replayed.verdict.lost] == page_lost


def test_switching_the_rules_keeps_the_place(opened: Opened) -> None:
    """Another generation plays the same text, at the same step."""
    page = opened.go("#/s/hw-loss?g=hw&step=18")
    assert page.locator(".ghost").count() == 1
    page.select_option("select.rules", "epoch")
    opened.until("lab.stage.generation === 'epoch'")
    assert page.evaluate("lab.stage.step") == 18
    assert page.locator(".ghost").count() == 0


def test_comparison_marks_the_first_difference(opened: Opened) -> None:
    """Two generations side by side part at the step that ``scenario compare`` names."""
    told = call("scenario", "compare", "hw-loss", "--json").json
    page = opened.go("#/s/hw-loss?g=hw&vs=epoch")
    assert page.locator(".pane").count() == 2
    assert page.evaluate("lab.stage.partsAt") == told["parts_at_step"]
    page.get_by_role("button", name="Go there").click()
    page.wait_for_selector(".banner.parts.here")
    rows = page.locator(".pane").evaluate_all(
        "panes => panes.map((pane) => pane.querySelectorAll('[data-log=\"0/1\"] .cell').length)"
    )
    assert rows == [2, 3]
    assert page.locator(".row[data-other]").evaluate_all("rows => rows.map((row) => row.dataset.log)") == [
        "0/1",
        "0/1",
    ]


def test_a_share_link_holds_everything(opened: Opened) -> None:
    """A link made on the page opens the same text, rules and step on another; Python makes the same links."""
    page = opened.go("#/s/hw-loss?g=hw&step=9")
    page.locator("g.broker").nth(2).click()
    page.get_by_text("Crash it").click()
    opened.until("lab.stage.step === 10")
    link = page.evaluate("import('lab/links.js').then(({ playLink }) => playLink(lab.stage))")
    facts = "[lab.stage.text, lab.stage.generation, lab.stage.step]"
    before = page.evaluate(facts)
    opened.page.goto("about:blank")
    page = opened.go(link)
    assert page.evaluate(facts) == before
    page = opened.go()
    page.evaluate("(link) => lab.open(link)", fragment(catalogue.text("acks-1-loss"), "hw", 4))
    assert page.evaluate("[lab.stage.draft.name, lab.stage.generation, lab.stage.step]") == [
        "acks-1-loss",
        "hw",
        4,
    ]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("#/p/AAAA", "This link is broken"),
        ("#/q/what", "This link is broken"),
        ("#/s/hw-los", "unknown scenario 'hw-los': did you mean hw-loss"),
        (fragment("scenario x\ntopic t replicas=0\ncrsh 0\n"), "line 3, column 1: expected a command"),
    ],
)
def test_what_cannot_be_opened_says_why_and_leads_back(opened: Opened, asked: str, says: str) -> None:
    """A broken link or text is answered with its reason and a way back to the catalogue."""
    page = opened.go(asked)
    assert says in page.locator(".complaint").inner_text()
    page.get_by_role("link", name="To the catalogue").click()
    page.wait_for_selector(".card")


def test_a_scenario_made_by_clicking_replays_elsewhere(opened: Opened, tmp_path: Path) -> None:
    """A form, a few clicks, and the saved file is a scenario that the command line plays to the same end."""
    page = opened.go("#/make")
    page.fill("input[name=name]", "clicked")
    page.select_option("select[name=generation]", "hw")
    page.get_by_role("button", name="Begin").click()
    page.wait_for_selector(".stage .scene .broker")
    for pick, deed in (("g.client", "and wait"), ("g.broker >> nth=0", "Crash it"), ("g.client", "and wait")):
        steps = page.evaluate("lab.stage.last")
        page.locator(pick).first.click()
        page.locator(".menu button", has_text=deed).click()
        opened.until(f"lab.stage.last === {steps + 1}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "clicked.scenario"
    told = call("replay", file, "--json").json
    assert told["generation"] == "hw"
    assert [entry["value"] for entry in told["acknowledged"]] == ["a", "b"]
    assert (
        told["partitions"]
        == json.loads(json.dumps(run(parse(file.read_text("utf-8"))).final.as_json()))["partitions"]
    )


def test_a_file_is_opened_and_a_wrong_one_refused(opened: Opened, tmp_path: Path) -> None:
    """What explore saves can be opened on the page; what is no text cannot, and the page says so."""
    found = tmp_path / "found.scenario"
    found.write_text(catalogue.text("acks-0-loss"), "utf-8")
    wrong = tmp_path / "wrong.scenario"
    wrong.write_bytes(b"\xff\xfe\x00")
    page = opened.go()
    with page.expect_file_chooser() as chooser:
        page.locator(".shelf-tools").get_by_role("button", name="Open a file").click()
    chooser.value.set_files(found)
    page.wait_for_selector(".stage .scene .broker")
    assert page.evaluate("lab.stage.draft.name") == "acks-0-loss"
    with page.expect_file_chooser() as chooser:
        page.locator("#bar").get_by_role("button", name="Open a file").click()
    chooser.value.set_files(wrong)
    page.wait_for_selector(".complaint")


def test_a_mistyped_command_changes_nothing(opened: Opened) -> None:
    """A command that does not exist is refused with its reason, and the story stays as it was."""
    page = opened.go("#/s/acks-1-loss?g=epoch&step=3")
    page.keyboard.press("f")
    page.fill(".command input", "wait lader 1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast.bad")
    assert "did you mean leader?" in page.locator(".toast").inner_text()
    assert page.evaluate("[lab.stage.name, lab.stage.step]") == ["acks-1-loss", 3]


def test_the_keyboard_alone_reaches_everything(opened: Opened) -> None:
    """Brokers can be focused; Enter opens a menu there, Escape goes back. Everything has a name."""
    page = opened.go("#/s/hw-loss?g=hw&step=3")
    page.locator("g.broker").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".popover")
    assert page.evaluate("document.activeElement.closest('.popover') !== null")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.classList.contains('broker')")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, a, select, input, [role=button], [role=img]')]
        .filter((e) => e.checkVisibility())
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML.slice(0, 90))"""
    )
    assert unnamed == []
    assert "Broker 1" in page.locator("#live").inner_text() or "Step 3" in page.locator("#live").inner_text()


def test_terms_explain_themselves(opened: Opened) -> None:
    """The first mention of a term in the story can be focused, and says what it means."""
    page = opened.go("#/s/hw-loss?g=hw&step=7")
    page.locator(".term").first.focus()
    page.wait_for_selector(".popover.meaning")
    assert len(page.locator(".popover.meaning").inner_text()) > 40


def test_every_step_is_told_in_chinese(browser: Any, address: str) -> None:
    """With Chinese chosen, comments, steps, events, remarks and rules of a few scenarios are Chinese."""
    opened = Opened(browser, address, locale="zh-CN")
    page = opened.go()
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    names = [
        "hw-loss",
        "unclean-election",
        "isolate-controller-zone",
        "min-insync-after",
        "kafka-7395-zombie-follower",
    ]
    for name in names:
        told = page.evaluate(
            """async (name) => {
              await lab.open(`#/s/${name}?g=hw`);
              const said = [];
              for (let step = 0; step <= lab.stage.last; step += 1) {
                lab.stage.go(step);
                const found = document.querySelectorAll(".narration, .now > span, .event, .remark, .rule p");
                said.push(...[...found].map((element) => element.textContent));
              }
              return said;
            }""",
            name,
        )
        assert len(told) > 20
        assert [text for text in told if not re.search(r"[\u4e00-\u9fff]", text)] == []
        assert not any("undefined" in text or "{" in text for text in told)
    opened.close()


TWO_TOPICS = """\
scenario two-topics
cluster  brokers=4 controller=3
topic    t replicas=0,1,2
topic    u replicas=1,2,3
producer p
producer q topic=u

produce p a
produce q x
crash 1
advance 8s
"""


def test_each_topic_has_its_own_roles_copies_and_sentences(opened: Opened) -> None:
    """When broker 1 has died, broker 2 leads u and is in sync in both; broker 3 follows in u alone. An answer
    counts the replicas of its own topic, and a sentence begins with the partition that it does not name."""
    page = opened.go()
    page.evaluate("(link) => lab.open(link)", fragment(TWO_TOPICS, "epoch", 4))
    opened.until("lab.stage?.step === 4")
    assert page.locator(".broker .role").all_text_contents() == [
        "leader t",
        "crashed",
        "leader u",
        "follower",
    ]
    rings = [str(broker.get_attribute("class")) for broker in page.locator(".broker").all()]
    assert ["in-isr" in ring for ring in rings] == [True, False, True, True]
    assert page.locator(".chip").first.locator(".chip-copies i").count() == 3
    happened = page.locator(".happened").inner_text()
    assert "u-0: Broker 2 becomes leader in epoch 1" in happened
    assert "t-0: Broker 0 goes on leading in epoch 1" in happened
    page.locator(".broker").nth(2).dispatch_event("click")
    about = page.locator(".popover .menu-about").all_inner_texts()
    assert [line for line in about if "LEO" in line] == [
        "t · follower · in sync · LEO 1 · HW 1",
        "u · leader · in sync · LEO 1 · HW 1",
    ]


def test_what_an_administrator_asks_has_a_lane(opened: Opened) -> None:
    """No arrow of the space-time diagram begins or ends outside of the lanes."""
    page = opened.go("#/s/isolate-leader-zone?g=epoch&step=15&view=time")
    assert page.locator(".st-names text").first.text_content() == "admin"
    top = float(str(page.locator(".st-names text").first.get_attribute("y")))
    ends = page.eval_on_selector_all(
        ".st-message .line", "lines => lines.flatMap(l => [+l.getAttribute('y1'), +l.getAttribute('y2')])"
    )
    assert min(ends) >= top


def test_two_hundred_steps_and_nine_replicas_are_drawn(opened: Opened) -> None:
    """The largest story one would look at opens, and every one of its steps can be drawn."""
    lines = [
        "scenario large",
        "cluster brokers=9 controller=8",
        "topic t replicas=0,1,2,3,4,5,6,7,8",
        "producer p acks=all",
        "",
    ]
    for number in range(66):
        lines += [f"produce p v{number}", f"pause {number % 8}", f"resume {number % 8}"]
    page = opened.go()
    page.evaluate("(link) => lab.open(link)", fragment("\n".join(lines) + "\n"))
    drawn = page.evaluate(
        "() => { for (let s = 0; s <= lab.stage.last; s += 1) lab.stage.go(s); return lab.stage.step; }"
    )
    assert drawn == 198
    assert page.locator(".row").count() == 9


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_nothing_sticks_out(browser: Any, address: str, size: tuple[int, int]) -> None:
    """On a phone and on a desk no page is wider than the screen."""
    opened = Opened(browser, address, size=size)
    for asked in (
        "",
        "#/s/isolate-leader-zone-acks-all?g=epoch&step=9",
        "#/s/hw-loss?g=hw&vs=epoch&step=18",
        "#/make",
    ):
        page = opened.go(asked)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], asked
    opened.close()


def test_the_moment_of_the_decision_is_drawn_and_can_be_stopped(opened: Opened) -> None:
    """The curve above the slider has a point for each step; what is there when it is stopped stays. Other
    rules take it away."""
    page = opened.go("#/s/kafka-7395-zombie-follower?g=hw")
    page.evaluate("void lab.stage.futures.run({ futures: 4 })")
    opened.until("document.querySelector('.curve')?.dataset.decided === '9' && !lab.stage.futures.stopping")
    points = page.locator(".curve polyline").get_attribute("points") or ""
    assert len(points.split()) == page.evaluate("lab.stage.last") + 1
    page.get_by_role("button", name="Go there (9)").click()
    assert page.evaluate("lab.stage.step") == 9
    page.get_by_role("button", name="When was it decided?").click()
    opened.until("lab.stage.futures.curves[0].shares.length > 0")
    page.locator(".futures .stop").click()
    opened.until("!lab.stage.futures.stopping")
    assert page.locator(".curve").count() == 1
    page.select_option("select.rules", "epoch")
    opened.until("lab.stage.generation === 'epoch'")
    assert page.locator(".curve").count() == 0


def test_the_space_time_diagram_shows_messages_crashes_and_cuts(opened: Opened) -> None:
    """A lane for each process; a message that was held is an arrow from the step at which it was sent, and a
    click on it goes to where it arrives. Crashes, cuts and a message that is dropped are drawn, too."""
    page = opened.go("#/s/hw-loss?g=hw&step=7")
    page.keyboard.press("v")
    assert page.locator(".st-names text").all_text_contents() == [
        "p",
        *(f"broker {id}" for id in range(3)),
        "keeper",
    ]
    assert page.locator(".st-crash").count() == 3
    held = page.evaluate(
        "(() => { const { arrows } = lab.stage.view.panes[0].time;"
        " const [found] = arrows.filter(({ step, beat }) => step === 7 && beat === 0);"
        " return [found.message.kind, found.to - found.from]; })()"
    )
    assert held[0] == "FetchRequest"
    assert held[1] > 1
    page.locator(".st-message.now .touch").last.dispatch_event("click")
    assert page.evaluate("[lab.stage.step, lab.stage.beat]") == [7, 1]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("lab.stage.view.panes[0].time.step") == 8
    page.keyboard.press("v")
    assert page.locator(".scene").is_visible()
    page.evaluate("lab.open('#/s/kafka-7395-zombie-follower?g=hw&step=9')")
    page.keyboard.press("v")
    assert page.locator(".st-message.unfinished.now").count() == 1
    page.evaluate("lab.open('#/s/isolate-leader-zone?g=hw&step=4')")
    page.keyboard.press("v")
    assert page.locator(".st-cut").count() >= 2


def test_a_cluster_of_ones_own_has_what_the_form_says(opened: Opened) -> None:
    """Producers, zones, flush and a second topic, whose leader is another broker, are in the text that is
    played; a leader's row says what it knows, and the keeper has a line for each partition."""
    page = opened.go("#/make")
    for name, value in {"brokers": "4", "zones": "2", "producers": "2", "topics": "2"}.items():
        page.fill(f"input[name={name}]", value)
    page.check("input[name=flush]")
    page.check("input[name=consumer]")
    page.select_option("select[name=topic-q]", "u")
    page.select_option("select[name=topic-c]", "u")
    page.click("button[type=submit]")
    page.wait_for_selector(".stage .scene .broker")
    scenario = parse(page.evaluate("lab.stage.text"))
    assert scenario.setup.zones == ("az1", "az2")
    assert scenario.setup.sync_each_append
    assert [topic.replicas for topic in scenario.setup.topics] == [(0, 1, 2), (1, 2, 3)]
    assert {each.name: scenario.partition_of(each.name).topic for each in scenario.clients} == {
        "p": "t",
        "q": "u",
        "c": "u",
    }
    assert [line.split(" · ")[0] for line in page.locator(".inside-keeper").all_inner_texts()] == [
        "keeper, t-0leader 0",
        "keeper, u-0leader 1",
    ]
    assert page.locator(".broker .role").all_text_contents() == [
        "leader t",
        "leader u",
        "follower",
        "follower",
    ]
    known = page.locator('[data-log="0/0"] .known tspan')
    assert (known.text_content() or "").startswith("Remote LEO 1: 0, 2: 0")


def test_the_front_page_shows_a_story_and_the_end_under_all_rules(opened: Opened) -> None:
    """The picture is that of the truncation in hw-loss; a chip's name opens the story under these rules."""
    page = opened.go()
    page.wait_for_selector(".preview .ghost")
    chips = page.locator(".card", has=page.locator("code", has_text=re.compile("^hw-loss$"))).locator(
        ".badge"
    )
    assert chips.all_inner_texts() == ["hw lost c", "kip101 epoch elr majority held"]
    chips.locator("a", has_text="kip101").click()
    page.wait_for_selector(".stage .scene .broker")
    assert page.evaluate("lab.stage.generation") == "kip101"
