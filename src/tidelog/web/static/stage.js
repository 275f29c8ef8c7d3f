// One scenario on the stage: one pane for each generation, the story beside it, time below, changes above.
//
// A step is done when `step` commands have been carried out; step 0 is the cluster as it was set up. Within a
// step `beat` counts messages; null is the end of the step.

import { calm, fill, h, text } from "lab/dom.js";
import { Draft } from "lab/draft.js";
import { playLink, scenarioLink } from "lab/links.js";
import { menuFor } from "lab/menu.js";
import { Play } from "lab/play.js";
import { clearToast, closePopover, showPopover, showText, toast } from "lab/popover.js";
import { SceneView } from "lab/scene.js";
import { drawLedger, drawLegend, drawScript, drawStory, liveWords, makeScript, paneEvents } from "lab/side.js";
import { CannotPlay, source } from "lab/source.js";
import { Transport } from "lab/transport.js";
import { failureWords, t, told } from "lab/words.js";

const FRAME_PADDING = 8;
const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];

// Of a scenario's sources, those that everybody can look up.
function references(source) {
  const found = source.split(/[;,]\s*/).filter((one) => /KIP|KAFKA/.test(one));
  return found.length > 0 && h("span", {}, found.join(", "));
}

export class Stage {
  constructor({ text, name, generation, against, step }) {
    this.text = text;
    this.name = name;
    this.generation = generation;
    this.against = against;
    this.step = step;
    this.beat = null;
    this.speed = 1;
    this.playing = false;
    this.turn = 0;
    this.past = [];
    this.keepRest = true;
    this.original = { text, name };
    this.element = h("div", { class: "stage", id: "story" });
  }

  // ------------------------------------------------------------ playing a text

  async load() {
    const [shelf, answer] = await Promise.all([
      source.shelf(),
      source.play({ text: this.text, generation: this.generation, against: this.against }),
    ]);
    this.shelf = shelf;
    this.#take(answer);
  }

  #take(answer) {
    this.answer = answer;
    this.plays = [answer.recording, answer.against].filter(Boolean).map((recording) => new Play(recording));
    this.generation = answer.recording.generation;
    this.partsAt = answer.parts_at ?? null;
    this.draft = Draft.of(answer.recording);
    this.step = Math.min(Math.max(this.step, 0), this.last);
    this.beat = null;
  }

  // What one is about to see, of a scenario of the catalogue.
  get lead() {
    const cards = this.shelf.groups.flatMap((group) => group.scenarios);
    return cards.find((card) => card.name === this.name)?.lead ?? "";
  }

  get last() {
    return Math.max(...this.plays.map((play) => play.last));
  }

  get recording() {
    return this.plays[0].recording;
  }

  // Play something else than now: another text, other rules. What cannot be played changes nothing.
  async change({ text: wanted = this.text, generation = this.generation, against = this.against, step = this.step, name = this.name, undoable = false }) {
    this.pause();
    const mine = (this.turn += 1);
    try {
      const answer = await source.play({ text: wanted, generation, against });
      if (mine !== this.turn) return false;
      if (undoable) this.past.push({ text: this.text, name: this.name, step: this.step });
      clearToast();
      Object.assign(this, { text: wanted, generation, against, step, name });
      this.#take(answer);
      this.redraw();
      return true;
    } catch (error) {
      if (!(error instanceof CannotPlay)) throw error;
      toast(`${t("cannotPlay")}: ${failureWords(error.message)}`, "bad");
      return false;
    }
  }

  // ------------------------------------------------------------ changes to the story

  async act(commands) {
    closePopover();
    if (!source.live) return toast(t("notInThisFile"), "bad");
    const draft = this.#own().insert(this.step, commands, { keepRest: this.keepRest });
    const from = this.step;
    const done = await this.change({ text: String(draft), step: from, name: null, undoable: true });
    if (done) this.go(from + commands.length, { animate: true });
    return done;
  }

  removeStep(at) {
    return this.change({ text: String(this.#own().remove(at - 1)), step: Math.max(Math.min(this.step, at - 1), 0), name: null, undoable: true });
  }

  endHere() {
    return this.change({ text: String(this.#own().endAfter(this.step)), name: null, undoable: true });
  }

  undo() {
    const former = this.past.pop();
    if (former) this.change(former);
  }

  backToOriginal() {
    this.past = [];
    this.change({ ...this.original, step: 0 });
  }

  // A change to the catalogue's story makes it one's own.
  #own() {
    return this.name ? this.draft.owned() : this.draft;
  }

  get isChanged() {
    return this.text !== this.original.text;
  }

  // The text with its rules in it, so that whoever plays the file plays the same.
  fileText() {
    const own = this.generation === "epoch" ? "" : ` generation=${this.generation}`;
    return String(this.draft).replace(/^(cluster\s.*)$/m, (line) => line.replace(/ generation=\S+/, "") + own);
  }

  save() {
    const file = `${this.draft.name}.scenario`;
    const url = URL.createObjectURL(new Blob([this.fileText()], { type: "text/plain" }));
    h("a", { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
    toast(t("savedAs", { file }));
  }

  async share() {
    const link = location.href.replace(/#.*/, "") + (await playLink(this));
    try {
      await navigator.clipboard.writeText(link);
      toast(t("shareDone"));
    } catch {
      showText(t("share"), t("shareManual"), link);
    }
  }

  editText() {
    showText(t("text"), "", this.fileText(), source.live && ((wanted) => this.change({ text: wanted, name: null, undoable: true })));
  }

  // ------------------------------------------------------------ time

  go(step, { beat = null, animate = false } = {}) {
    const from = this.step;
    this.turn += 1;
    this.step = Math.min(Math.max(step, 0), this.last);
    this.beat = beat;
    if (animate && this.step === from + 1 && !calm()) this.#run(this.turn, 900);
    else this.draw();
    this.#write();
  }

  // Show what happens within the step, beat by beat, in about so much time.
  async #run(turn, budget) {
    const over = () => turn !== this.turn;
    const beats = Math.max(...this.plays.map((play) => play.beats(this.step).length));
    const each = Math.min(Math.max(budget / Math.max(beats, 1), 90), 520) / this.speed;
    this.drawWords({ ledgers: false });
    for (let beat = 0; beat < beats && !over(); beat += 1) {
      await Promise.all(this.panes.map((pane) => this.#showBeat(pane, beat, each, over)));
    }
    if (!over()) this.draw({ moved: true });
  }

  async #showBeat({ play, view, ledger }, beat, duration, over) {
    const found = play.beats(this.step)[beat];
    if (!found) return;
    const scene = play.within(this.step, beat);
    await view.travel(found.messages ?? [], scene, duration, over);
    if (over()) return;
    view.draw(scene, { moved: true, before: play.scene(this.step - 1) });
    drawLedger(ledger, play, scene, this.step - 1);
  }

  back() {
    this.pause();
    if (this.beat !== null) this.go(this.step - 1);
    else this.go(this.step - 1);
  }

  forward() {
    this.pause();
    this.go(this.step + 1, { animate: true });
  }

  // One message further, or back.
  async nudge(by) {
    this.pause();
    const beats = this.plays[0].beats(this.step).length;
    if (by > 0) {
      if (this.beat === null) {
        if (this.step === this.last) return;
        const inNext = this.plays[0].beats(this.step + 1).length;
        this.go(this.step + 1, { beat: inNext ? 0 : null });
      } else this.go(this.step, { beat: this.beat + 1 < beats ? this.beat + 1 : null });
      await this.#showMoment();
    } else if (this.beat === null) {
      if (beats) this.go(this.step, { beat: beats - 1 });
      else this.go(this.step - 1);
    } else if (this.beat > 0) this.go(this.step, { beat: this.beat - 1 });
    else this.go(this.step - 1);
  }

  async #showMoment() {
    if (this.beat === null) return;
    const turn = this.turn;
    const { play, view } = this.panes[0];
    const before = this.beat > 0 ? play.within(this.step, this.beat - 1) : play.scene(this.step - 1);
    view.draw(before);
    await view.travel(play.beats(this.step)[this.beat].messages ?? [], before, 420 / this.speed, () => turn !== this.turn);
    if (turn === this.turn) this.draw({ moved: true });
  }

  toggle() {
    if (this.playing) this.pause();
    else this.start();
  }

  async start() {
    if (this.step >= this.last) this.go(0);
    this.playing = true;
    this.transport.draw(this);
    while (this.playing && this.step < this.last) {
      const turn = (this.turn += 1);
      this.step += 1;
      this.beat = null;
      await this.#run(turn, 2000);
      this.#write();
      if (turn !== this.turn) return;
      await this.#rest(turn);
      if (turn !== this.turn) return;
    }
    this.pause();
  }

  // Time to read: a new comment takes longer than a step of the one before.
  #rest(turn) {
    const { comment } = this.plays[0].step(this.step);
    const reading = comment ? Math.min(900 + told(comment).length * 26, 6000) : 750;
    return new Promise((resolve) => {
      const end = performance.now() + reading / this.speed;
      const look = () => (turn !== this.turn || performance.now() >= end ? resolve() : setTimeout(look, 60));
      look();
    });
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.turn += 1;
    this.draw();
  }

  faster(by) {
    const at = SPEEDS.indexOf(this.speed);
    this.speed = SPEEDS[Math.min(Math.max(at + by, 0), SPEEDS.length - 1)];
    this.transport.draw(this);
  }

  // ------------------------------------------------------------ keys

  key(event) {
    const onButton = event.target.closest?.("button, a, summary, [role=button]");
    if (event.key === " " && onButton) return false;
    const actions = {
      " ": () => this.toggle(),
      ArrowLeft: () => (event.shiftKey ? this.nudge(-1) : this.back()),
      ArrowRight: () => (event.shiftKey ? this.nudge(1) : this.forward()),
      Home: () => this.go(0),
      End: () => this.go(this.last),
      "[": () => this.faster(-1),
      "]": () => this.faster(1),
      f: () => this.forkMenu(),
      c: () => this.compareBox.focus(),
      s: () => this.share(),
      e: () => this.editText(),
    };
    const action = actions[event.key];
    if (!action) return false;
    if (["Home", "End"].includes(event.key)) this.pause();
    action();
    return true;
  }

  forkMenu() {
    this.pick({ kind: "cluster" }, this.forkButton);
  }

  pick(what, element) {
    this.pause();
    showPopover(element, menuFor(what, this));
  }

  // ------------------------------------------------------------ the page

  opened() {
    this.redraw();
    document.title = `${told(this.recording.title) || this.draft.name} · ${t("appName")}`;
    scrollTo(0, 0);
  }

  close() {
    this.playing = false;
    this.turn += 1;
    this.observer?.disconnect();
    clearTimeout(this.writing);
  }

  redraw() {
    const longest = Math.max(3, ...this.plays.flatMap((play) => play.scenes.flatMap((scene) => Object.keys(scene).filter((key) => key.startsWith("log/")).map((key) => scene[key].leo))));
    this.panes = this.plays.map((play) => {
      const view = new SceneView(play, { longest, onPick: (what, element) => this.pick(what, element) });
      const ledger = h("section", { class: "ledger", "aria-label": t("ledger") });
      const frame = h("div", { class: "frame" }, view.svg);
      const happened = h("div", { class: "pane-events" });
      const title = this.against && h("h2", { class: "pane-title" }, h("b", {}, play.recording.generation), h("span", {}, told(this.#summary(play.recording.generation))));
      return { play, view, ledger, frame, happened, element: h("article", { class: "pane" }, title, ledger, frame, this.against && happened) };
    });
    this.story = h("div", { class: "story" });
    const wasOpen = this.script?.open;
    this.script = makeScript(this);
    this.script.open = wasOpen ?? false;
    this.transport = new Transport(this);
    this.banner = h("div", { class: "banners" });
    fill(this.element, this.#head(), this.banner,
      h("div", { class: this.against ? "body comparing" : "body" },
        h("div", { class: "panes" }, this.panes.map((pane) => pane.element)),
        h("aside", { class: "side" }, this.story, this.script)),
      drawLegend(this.panes[0].view.showsDisk), this.transport.element);
    this.observer?.disconnect();
    this.observer = new ResizeObserver(() => this.#fit());
    for (const pane of this.panes) this.observer.observe(pane.frame);
    this.#fit(true);
  }

  #summary(generation) {
    return this.shelf.generations.find((found) => found.name === generation)?.summary ?? "";
  }

  #fit(always = false) {
    let changed = always;
    for (const { frame, view } of this.panes) {
      const width = Math.floor(frame.clientWidth) - 2 * FRAME_PADDING;
      if (width > 0) changed = view.resize(width) || changed;
    }
    if (changed && this.panes.every(({ view }) => view.width)) this.draw();
  }

  #head() {
    const recording = this.recording;
    const rules = h("select", { class: "rules", "aria-label": t("rules"), title: t("rulesHelp"), onchange: () => this.change({ generation: rules.value, against: this.against === rules.value ? null : this.against }) });
    this.compareBox = h("select", { "aria-label": t("compareWith"), onchange: () => this.change({ against: this.compareBox.value || null }) });
    this.forkButton = h("button", { type: "button", class: "button", title: `${t("forkHelp")} (f)`, onclick: () => this.forkMenu() }, t("fork"));
    this.#fillChoices(rules);
    return h("div", { class: "head" },
      h("div", { class: "titles" },
        h("p", { class: "eyebrow" }, h("code", {}, this.draft.name), references(recording.source)),
        h("h1", {}, told(recording.title) || this.draft.name)),
      h("div", { class: "tools", role: "group", "aria-label": t("mainMenu") },
        h("label", { class: "choice" }, h("span", {}, t("rules")), rules),
        h("label", { class: "choice" }, h("span", {}, t("compareWith")), this.compareBox),
        this.forkButton,
        h("button", { type: "button", class: "button", title: "s", onclick: () => this.share() }, t("share")),
        h("button", { type: "button", class: "button", title: t("saveHelp"), onclick: () => this.save() }, t("save")),
        h("button", { type: "button", class: "button", title: "e", onclick: () => this.editText() }, t("edit"))));
  }

  async #fillChoices(rules) {
    const known = this.shelf.generations.map((generation) => generation.name);
    const offered = source.generations ? await source.generations() : known;
    fill(rules, offered.map((name) => h("option", { value: name, selected: name === this.generation }, name)));
    fill(this.compareBox, h("option", { value: "" }, t("noCompare")),
      offered.filter((name) => name !== this.generation).map((name) => h("option", { value: name, selected: name === this.against }, name)));
  }

  // ------------------------------------------------------------ drawing where we are

  draw({ moved = false } = {}) {
    for (const { play, view } of this.panes) {
      const at = Math.min(this.step, play.last);
      const scene = this.beat === null ? play.scene(at) : play.within(at, this.beat);
      view.draw(scene, { before: at > 0 ? play.scene(at - 1) : null, moved });
    }
    this.drawWords();
  }

  drawWords({ ledgers = true } = {}) {
    for (const { play, ledger, happened } of this.panes) {
      const at = Math.min(this.step, play.last);
      if (ledgers) drawLedger(ledger, play, this.beat === null ? play.scene(at) : play.within(at, this.beat), at);
      if (this.against) paneEvents(happened, play, at, this);
    }
    drawStory(this.story, this);
    drawScript(this.script, this);
    this.transport.draw(this);
    this.#drawBanners();
    text(document.getElementById("live"), liveWords(this));
  }

  #drawBanners() {
    const banners = [];
    if (this.isChanged || this.past.length) {
      banners.push(h("p", { class: "banner yours" },
        h("b", {}, t("yours", { name: this.original.name ?? this.draft.name })),
        h("button", { type: "button", class: "button small", onclick: () => this.undo(), disabled: !this.past.length }, t("undo")),
        this.step < this.last && h("button", { type: "button", class: "button small", onclick: () => this.endHere() }, t("endHere")),
        h("button", { type: "button", class: "button small", onclick: () => this.backToOriginal() }, t(this.original.name ? "original" : "startOver"))));
    }
    if (this.against) banners.push(this.#partsBanner());
    fill(this.banner, banners);
  }

  #partsBanner() {
    const at = this.partsAt;
    const words = at === null ? t("neverPart") : this.step < at ? t("notYet") : this.step === at ? t("partHere") : t("partsAt", { step: at });
    return h("p", { class: at !== null && this.step === at ? "banner parts here" : "banner parts" }, h("b", {}, words),
      at !== null && this.step !== at && h("button", { type: "button", class: "button small", onclick: () => this.go(at) }, `${t("goThere")} (${at})`));
  }

  // The address follows, so that reloading and bookmarks come back to this very step.
  #write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(async () => {
      const turn = this.turn;
      const link = this.name ? scenarioLink(this.name, this) : await playLink(this);
      if (turn === this.turn || this.playing) history.replaceState(null, "", link);
    }, 250);
  }
}

