// One scenario on the stage: one pane for each generation, the story beside it, time below, changes above.
//
// A step is done when `step` commands have been carried out; step 0 is the cluster as it was set up. Within a
// step `beat` counts messages; null is the end of the step.

import { titleOf } from "lab/account.js";
import { calm, fill, h } from "lab/dom.js";
import { Draft } from "lab/draft.js";
import { Futures } from "lab/futures.js";
import { aboutLink, playLink, scenarioLink, shareLink } from "lab/links.js";
import { menuFor } from "lab/menu.js";
import { Play } from "lab/play.js";
import { clearToast, closePopover, showPopover, showText, toast } from "lab/popover.js";
import { CannotPlay, source } from "lab/source.js";
import { StageView } from "lab/stageview.js";
import { failureWords, t, translated } from "lab/words.js";

const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];

export class Stage {
  constructor({ text, name, generation, against, step, showsTime = false }) {
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
    this.showsTime = showsTime;
    this.original = { text, name };
    this.futures = new Futures(this);
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
    this.futures.close();
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
    const isTrue = this.recording.title_holds;
    return (isTrue && cards.find((card) => card.name === this.name)?.lead) || "";
  }

  get last() {
    return Math.max(...this.plays.map((play) => play.last));
  }

  get recording() {
    return this.plays[0].recording;
  }

  // Play something else than now: another text, other rules. What cannot be played changes nothing, and is said.
  async change(wanted, { undoable = false, onFailure = sayFailure } = {}) {
    const { text, name, generation, against, step } = this;
    const next = { text, name, generation, against, step, ...wanted };
    this.pause();
    const mine = (this.turn += 1);
    try {
      const answer = await source.play(next);
      if (mine !== this.turn) return false;
      if (undoable) this.past.push({ text, name, generation, step });
      clearToast();
      Object.assign(this, next);
      this.#take(answer);
      this.redraw();
      return true;
    } catch (error) {
      if (!(error instanceof CannotPlay)) throw error;
      onFailure(error);
      return false;
    }
  }

  // ------------------------------------------------------------ changes to the story

  async act(commands) {
    closePopover();
    if (!source.live) return toast(t("notInThisFile"), "bad");
    const draft = this.draft.insert(this.step, commands, { keepRest: this.keepRest });
    const from = this.step;
    const done = await this.rewrite(draft, from);
    if (done) this.go(from + commands.length, { animate: true });
    return done;
  }

  // Another text instead of this one, which can be undone. Nothing stays in it that the change has made untrue.
  rewrite(draft, step = this.step) {
    return this.change({ text: this.#truthful(draft), step, name: null }, { undoable: true });
  }

  // A change to the catalogue's story makes it one's own.
  #truthful(draft) {
    return String(draft.asChangeOf(this.draft, this.name ? `${this.name}-mine` : this.draft.name));
  }

  removeStep(at) {
    return this.rewrite(this.draft.remove(at - 1), Math.max(Math.min(this.step, at - 1), 0));
  }

  endHere() {
    return this.rewrite(this.draft.endAfter(this.step));
  }

  undo() {
    const former = this.past.pop();
    if (former) this.change(former);
  }

  backToOriginal() {
    this.past = [];
    this.change({ ...this.original, step: 0 });
  }

  get isChanged() {
    return this.text !== this.original.text;
  }

  // The text with its rules in it, so that the file plays the same elsewhere.
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
    const link = await shareLink(this);
    const about = t(aboutLink(this));
    try {
      await navigator.clipboard.writeText(link);
      toast(`${t("shareDone")} ${about}`);
    } catch {
      showText(t("share"), `${t("shareManual")} ${about}`, link);
    }
  }

  editText() {
    const former = this.fileText();
    // Rules that are written into the text count.
    const play = async (wanted) => {
      const generation = /^cluster\s.*\bgeneration=(\S+)/m.exec(wanted)?.[1] ?? this.generation;
      const text = wanted === former ? wanted : this.#truthful(Draft.read(wanted));
      let failure = null;
      const onFailure = (error) => (failure = error.message);
      await this.change({ text, generation, name: null }, { undoable: true, onFailure });
      return failure && failureWords(await this.#failureOf(wanted, generation) ?? failure);
    };
    showText(t("text"), "", former, source.live && play);
  }

  // What is wrong with a text as the reader wrote it: its lines are those that the reader sees.
  async #failureOf(text, generation) {
    try {
      await source.play({ text, generation, against: null });
    } catch (error) {
      if (!(error instanceof CannotPlay)) throw error;
      return error.message;
    }
    return null;
  }

  // ------------------------------------------------------------ time

  go(step, { beat = null, animate = false } = {}) {
    const from = this.step;
    this.turn += 1;
    this.step = Math.min(Math.max(step, 0), this.last);
    this.beat = beat;
    if (animate && this.step === from + 1 && !calm()) this.#run(this.turn, 900);
    else this.view.draw();
    this.#write();
  }

  // Show what happens within the step, beat by beat, in about so much time.
  async #run(turn, budget) {
    const over = () => turn !== this.turn;
    const beats = Math.max(...this.plays.map((play) => play.beats(this.step).length));
    const each = Math.min(Math.max(budget / Math.max(beats, 1), 90), 520) / this.speed;
    this.view.drawWords({ ledgers: false });
    for (let beat = 0; beat < beats && !over(); beat += 1) {
      await Promise.all(this.view.panes.map((pane) => this.#showBeat(pane, beat, each, over)));
    }
    if (!over()) this.view.draw({ moved: true });
  }

  async #showBeat(pane, beat, duration, over) {
    const found = pane.play.beats(this.step)[beat];
    if (!found) return;
    const scene = pane.play.within(this.step, beat);
    await pane.view.travel(found.messages ?? [], scene, duration, over);
    if (!over()) this.view.drawMoment(pane, scene);
  }

  // The other view of the same play.
  toggleTime() {
    this.showsTime = !this.showsTime;
    this.view.fit(true);
    this.#write();
  }

  // Go to a moment of a step at once.
  goTo(step, beat) {
    this.pause();
    this.go(step, { beat });
  }

  // Go somewhere else at once.
  jump(step) {
    this.pause();
    this.go(step);
  }

  back() {
    this.pause();
    this.go(this.step - 1);
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
    const { play, view } = this.view.panes[0];
    const before = this.beat > 0 ? play.within(this.step, this.beat - 1) : play.scene(this.step - 1);
    view.draw(before);
    await view.travel(play.beats(this.step)[this.beat].messages ?? [], before, 420 / this.speed, () => turn !== this.turn);
    if (turn === this.turn) this.view.draw({ moved: true });
  }

  toggle() {
    if (this.playing) this.pause();
    else this.start();
  }

  async start() {
    if (this.step >= this.last) this.go(0);
    this.playing = true;
    this.view.transport.draw(this);
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
    const reading = comment ? Math.min(900 + translated(comment).length * 26, 6000) : 750;
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
    this.view.draw();
  }

  faster(by) {
    const at = SPEEDS.indexOf(this.speed);
    this.speed = SPEEDS[Math.min(Math.max(at + by, 0), SPEEDS.length - 1)];
    this.view.transport.draw(this);
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
      c: () => this.view.compareBox.focus(),
      s: () => this.share(),
      e: () => this.editText(),
      v: () => this.toggleTime(),
      d: () => source.live && this.futures.run(),
    };
    const action = actions[event.key];
    if (!action) return false;
    if (["Home", "End"].includes(event.key)) this.pause();
    action();
    return true;
  }

  forkMenu() {
    this.pick({ kind: "cluster" }, this.view.forkButton);
  }

  pick(what, element) {
    this.pause();
    showPopover(element, menuFor(what, this));
  }

  // ------------------------------------------------------------ the page

  opened() {
    this.redraw();
    scrollTo(0, 0);
  }

  close() {
    this.playing = false;
    this.turn += 1;
    this.futures.close();
    this.view?.close();
    clearTimeout(this.writing);
  }

  // Make the page again: another play, another language.
  redraw() {
    this.view?.close();
    this.view = new StageView(this, this.view);
    fill(this.element, this.view.parts);
    document.title = `${titleOf(this)} · ${t("appName")}`;
    this.view.fit(true);
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

const sayFailure = (error) => toast(`${t("cannotPlay")}: ${failureWords(error.message)}`, "bad");
