// The stage as a page: the head with its choices, banners, a pane for each generation, the story, time.

import { titleOf } from "lab/account.js";
import { button, fill, h, set, text } from "lab/dom.js";
import { drawFutureWords } from "lab/futures.js";
import { drawInside, drawKeeper, makeInside } from "lab/inside.js";
import { SceneView } from "lab/scene.js";
import { drawLedger, drawLegend, drawScript, drawStory, liveWords, makeScript, paneEvents } from "lab/side.js";
import { source } from "lab/source.js";
import { SpaceTime } from "lab/spacetime.js";
import { Transport } from "lab/transport.js";
import { t, translated } from "lab/words.js";

const FRAME_PADDING = 8;
const MARGIN = 8;
// Small differences are not worth another picture.
const ROOM_STEP = 8;
const ONE_COLUMN = "(max-width: 1080px)";
const SMALL = { class: "button small" };

export class StageView {
  constructor(stage, former = null) {
    this.stage = stage;
    const longest = Math.max(3, ...stage.plays.map((play) => play.longest));
    this.panes = stage.plays.map((play) => this.#pane(play, longest));
    this.narrated = h("div", { class: "narrated" });
    this.narrated.addEventListener("scroll", () => this.#markEnd(), { passive: true });
    this.story = h("div", { class: "story" });
    this.script = makeScript(stage);
    this.script.open = former?.script.open ?? false;
    this.transport = new Transport(stage);
    this.banner = h("div", { class: "banners" });
    this.futures = h("div", { class: "banner futures", role: "status", hidden: true });
    this.parts = [
      this.#head(),
      this.banner,
      this.futures,
      h("div", { class: stage.against ? "body comparing" : "body" },
        this.narrated,
        h("div", { class: "panes" }, this.panes.map((pane) => pane.element)),
        h("aside", { class: "side" }, this.story, this.script)),
      drawLegend(stage.plays, this.panes[0].view.showsDisk),
      this.transport.element,
    ];
    this.observer = new ResizeObserver(() => this.fit());
    for (const pane of this.panes) this.observer.observe(pane.frame);
    this.observer.observe(document.documentElement);
  }

  close() {
    this.observer.disconnect();
  }

  // The pictures are as wide as there is room, and if possible no higher.
  fit(always = false) {
    if (always) this.drawWords();
    let changed = always;
    const room = this.#room();
    for (const { frame, view, time } of this.panes) {
      const width = Math.floor(frame.clientWidth) - 2 * FRAME_PADDING;
      if (width <= 0) continue;
      changed = view.resize(width, room) || changed;
      if (this.stage.showsTime) changed = time.resize(width, room) || changed;
    }
    if (changed && this.panes.every(({ view }) => view.width)) this.draw();
  }

  // How high a picture may be so that all of them are in the window, together with their narration. In one
  // column the head of the page may be scrolled away.
  #room() {
    const frames = this.panes.map(({ frame }) => frame.getBoundingClientRect());
    const isOneColumn = matchMedia(ONE_COLUMN).matches;
    const above = isOneColumn ? this.narrated.getBoundingClientRect().top : -scrollY;
    const isStacked = frames.length > 1 && frames[1].top >= frames[0].bottom;
    const between = isStacked ? frames[1].top - frames[0].bottom : 0;
    const rest = frames[0].top - above + between + this.transport.element.offsetHeight + MARGIN;
    const each = (innerHeight - rest) / (isStacked ? 2 : 1) - 2 * FRAME_PADDING - 2;
    return Math.floor(each / ROOM_STEP) * ROOM_STEP;
  }

  // ------------------------------------------------------------ making

  #pane(play, longest) {
    const { stage } = this;
    const { generation } = play.recording;
    const view = new SceneView(play, { longest, onPick: (what, element) => stage.pick(what, element) });
    const ledger = h("section", { class: "ledger", "aria-label": t("ledger") });
    const time = new SpaceTime(play, { onGo: (step, beat) => stage.goTo(step, beat) });
    const frame = h("div", { class: "frame" }, view.svg, time.element);
    const happened = h("div", { class: "pane-events", "data-generation": generation });
    const inside = makeInside(stage.against && generation);
    const keeper = h("div", { class: "keeper-lines" });
    const summary = stage.shelf.generations.find((found) => found.name === generation)?.summary ?? "";
    const title = h("h2", { class: "pane-title" }, h("b", {}, generation), h("span", {}, translated(summary)));
    const element = h("article", { class: "pane" }, stage.against && title, ledger, keeper, frame, inside, stage.against && happened);
    return { play, view, time, keeper, ledger, frame, inside, happened, element };
  }

  #head() {
    const { stage } = this;
    const { recording, draft } = stage;
    this.forkButton = button(t("fork"), () => stage.forkMenu(), { title: `${t("forkHelp")} (f)` });
    this.timeButton = button(t("spacetime"), () => stage.toggleTime(), { title: `${t("spacetimeHelp")} (v)` });
    return h("div", { class: "head" },
      h("div", { class: "titles" },
        h("p", { class: "eyebrow" }, h("code", {}, draft.name), references(recording.source)),
        h("h1", {}, titleOf(stage))),
      h("div", { class: "tools", role: "group", "aria-label": t("mainMenu") },
        this.#choices(),
        this.timeButton,
        this.forkButton,
        source.live && button(t("futures"), () => stage.futures.run(), { title: `${t("futuresHelp")} (d)` }),
        button(t("share"), () => stage.share(), { title: "s" }),
        button(t("save"), () => stage.save(), { title: t("saveHelp") }),
        button(t("edit"), () => stage.editText(), { title: "e" })));
  }

  #choices() {
    const { stage } = this;
    const rules = h("select", { class: "rules", title: t("rulesHelp"), onchange: () => chosen() });
    const chosen = () => {
      const against = stage.against === rules.value ? null : stage.against;
      stage.change({ generation: rules.value, against });
    };
    this.compareBox = h("select", { onchange: () => stage.change({ against: this.compareBox.value || null }) });
    this.#offer(rules);
    return [
      h("label", { class: "choice" }, h("span", {}, t("rules")), rules),
      h("label", { class: "choice" }, h("span", {}, t("compareWith")), this.compareBox),
    ];
  }

  async #offer(rules) {
    const { stage } = this;
    const option = (name, chosen) => h("option", { value: name, selected: name === chosen }, name);
    const known = stage.shelf.generations.map((generation) => generation.name);
    const offered = source.generations ? await source.generations() : known;
    const others = offered.filter((name) => name !== stage.generation);
    fill(rules, offered.map((name) => option(name, stage.generation)));
    fill(this.compareBox, h("option", { value: "" }, t("noCompare")), others.map((name) => option(name, stage.against)));
  }

  // ------------------------------------------------------------ drawing where we are

  draw({ moved = false } = {}) {
    for (const { play, view } of this.panes) {
      const at = Math.min(this.stage.step, play.last);
      view.draw(this.#scene(play), { before: at > 0 ? play.scene(at - 1) : null, moved });
    }
    if (this.stage.against) this.#markOthers();
    this.drawWords();
  }

  // The picture or the space-time diagram of the same play.
  drawShape() {
    const { showsTime, step, beat } = this.stage;
    set(this.timeButton, "aria-pressed", String(showsTime));
    for (const { frame, play, time } of this.panes) {
      frame.classList.toggle("as-time", showsTime);
      if (showsTime && time.size) time.draw(Math.min(step, play.last), beat);
    }
  }

  // Replicas that hold, or know to be committed, something else than under the other generation.
  #markOthers() {
    const [one, other] = this.panes.map(({ play }) => this.#scene(play));
    for (const key of this.panes[0].view.rows.keys()) {
      const isOther = essence(one[`log/${key}`]) !== essence(other[`log/${key}`]);
      for (const { view } of this.panes) view.rows.get(key).mark(isOther);
    }
  }

  // A moment within a step. What is lost turns red when the step is over.
  drawMoment({ play, view, keeper, ledger, inside }, scene) {
    const before = this.stage.step - 1;
    view.draw(scene, { moved: true, before: play.scene(before) });
    drawLedger(ledger, play, scene, before);
    drawKeeper(keeper, play.cast, scene, play.scene(before));
    drawInside(inside, play.cast, scene, play.scene(before));
  }

  #scene(play) {
    const { step, beat } = this.stage;
    const at = Math.min(step, play.last);
    return beat === null ? play.scene(at) : play.within(at, beat);
  }

  drawWords({ ledgers = true } = {}) {
    const { stage } = this;
    for (const { play, keeper, ledger, inside, happened } of this.panes) {
      const at = Math.min(stage.step, play.last);
      if (ledgers) drawKeeper(keeper, play.cast, this.#scene(play), at > 0 ? play.scene(at - 1) : null);
      if (ledgers) drawLedger(ledger, play, this.#scene(play), at);
      if (ledgers) drawInside(inside, play.cast, this.#scene(play), at > 0 ? play.scene(at - 1) : null);
      if (stage.against) paneEvents(happened, play, at, stage);
    }
    drawStory(this.narrated, this.story, stage);
    if (stage.step !== this.narratedStep) this.narrated.scrollTop = 0;
    this.narratedStep = stage.step;
    this.#markEnd();
    drawScript(this.script, stage);
    this.transport.draw(stage);
    this.drawShape();
    fill(this.banner, (stage.isChanged || stage.past.length > 0) && this.#ownBanner(), stage.against && this.#partsBanner());
    drawFutureWords(this.futures, stage.futures, stage);
    text(document.getElementById("live"), liveWords(stage));
  }

  // In one column the narration has a fixed height, and fades where there is more of it.
  #markEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.narrated;
    this.narrated.classList.toggle("at-end", scrollTop + clientHeight >= scrollHeight - 4);
  }

  // When the story was decided: the words, and the curve, for which the bar of time grows.
  drawFutures() {
    const { stage } = this;
    drawFutureWords(this.futures, stage.futures, stage);
    this.transport.drawFutures(stage);
    this.fit();
  }

  #ownBanner() {
    const { stage } = this;
    const { name } = stage.original;
    return h("p", { class: "banner yours" },
      h("b", {}, t("yours", { name: name ?? stage.draft.name })),
      button(t("undo"), () => stage.undo(), { ...SMALL, disabled: !stage.past.length }),
      stage.step < stage.last && button(t("endHere"), () => stage.endHere(), SMALL),
      button(t(name ? "original" : "startOver"), () => stage.backToOriginal(), SMALL));
  }

  #partsBanner() {
    const { step, partsAt: at } = this.stage;
    if (at === null) return h("p", { class: "banner parts" }, h("b", {}, t("neverPart")));
    if (step === at) return h("p", { class: "banner parts here" }, h("b", {}, t("partHere")));
    const words = step < at ? t("notYet") : t("partsAt", { step: at });
    return h("p", { class: "banner parts" }, h("b", {}, words),
      button(`${t("goThere")} (${at})`, () => this.stage.go(at), SMALL));
  }
}

// What a replica holds, whatever the generation: epochs and control records do not count.
function essence({ records, hw }) {
  const values = records.map(([, value]) => value);
  const committed = values.slice(0, hw).filter((value) => value !== null).length;
  return `${values.filter((value) => value !== null).join(" ")}|${committed}`;
}

// Of a scenario's sources, those that any reader can look up.
function references(source) {
  const found = source.split(/[;,]\s*/).filter((one) => /KIP|KAFKA/.test(one));
  return found.length > 0 && h("span", {}, found.join(", "));
}
