// The space-time diagram: a lane for each process, time to the right, messages as arrows. A second view of a play.
//
// It is drawn once for a width; a step then only moves the mark of where we are. A click, or a pull along it, goes
// there; a click on an arrow goes to the moment at which it arrives.

import { fill, h, s, set, widthOf } from "lab/dom.js";
import { columnsOf, cutsOf, isOfClient, lanesOf, messagesOf, signsOf, statesOf } from "lab/timeline.js";
import { commandWords, messageWords, nodeWords, t } from "lab/words.js";

const HEAD = 36;
const COLUMN_MIN = 24, COLUMN_MAX = 60;
const LANE_MIN = 34, LANE_MAX = 64;
const LETTER = 6.2;

export class SpaceTime {
  // `onGo(step, beat)` is called when the reader chooses a moment.
  constructor(play, { onGo }) {
    this.play = play;
    this.onGo = onGo;
    this.time = columnsOf(play);
    this.lanes = lanesOf(play.cast, this.time);
    this.names = s("svg", { class: "st-names", "aria-hidden": "true" });
    this.svg = s("svg", { class: "spacetime", role: "group", "aria-label": t("spacetimeLabel") });
    this.scroller = h("div", { class: "st-scroll" }, this.svg);
    this.element = h("div", { class: "st" }, this.names, this.scroller);
    this.size = "";
    this.#watchPointer();
  }

  // Lay out for a width, and if possible no higher than `room`.
  resize(width, room) {
    const size = `${width}/${room}`;
    if (size === this.size) return false;
    this.size = size;
    const labels = Math.min(Math.max(...this.lanes.map((lane) => laneName(lane).length)) * 7 + 16, 92);
    const fair = (width - labels) / this.time.columns.length;
    this.column = Math.min(Math.max(fair, COLUMN_MIN), COLUMN_MAX);
    this.lane = Math.min(Math.max((room - HEAD - 10) / this.lanes.length, LANE_MIN), LANE_MAX);
    this.height = HEAD + this.lanes.length * this.lane + 6;
    const wide = this.time.columns.length * this.column + 12;
    for (const [svg, across] of [[this.names, labels], [this.svg, wide]]) {
      set(svg, "width", across);
      set(svg, "height", this.height);
    }
    fill(this.names, this.lanes.map((lane) => s("text", { x: 6, y: this.#y(lane), dy: "0.35em" }, laneName(lane))));
    this.#make();
    return true;
  }

  #x(column) {
    return (column + 0.5) * this.column;
  }

  #y(lane) {
    return HEAD + (this.lanes.indexOf(String(lane)) + 0.5) * this.lane;
  }

  // ------------------------------------------------------------ making

  #make() {
    this.here = s("rect", { class: "st-here", y: 0, height: this.height, rx: 6 });
    this.moment = s("line", { class: "st-moment", y1: HEAD - 8, y2: this.height });
    const taken = [];
    this.arrows = messagesOf(this.play, this.time).map((found) => ({ ...found, group: this.#arrow(found, taken) }));
    fill(this.svg,
      this.here,
      cutsOf(this.time).flatMap((cut) => this.#cut(cut)),
      this.#steps(),
      statesOf(this.lanes, this.time, this.play.cast.topics).map((state) => this.#state(state)),
      this.arrows.map(({ group }) => group),
      this.#signs(),
      this.moment);
  }

  #steps() {
    return this.time.first.map((first, step) => {
      const from = first * this.column;
      const wide = (this.time.last[step] + 1) * this.column - from;
      const { command } = this.play.step(step);
      const letters = Math.floor((wide - 6) / LETTER);
      const short = command.length > letters ? `${command.slice(0, Math.max(letters - 1, 0))}…` : command;
      return s("g", { class: "st-step" },
        s("title", {}, `${step}: ${commandWords(command, [this.play.recording.generation])}`),
        s("line", { x1: from, x2: from, y1: 4, y2: this.height }),
        s("text", { class: "st-number", x: from + 4, y: 13 }, String(step)),
        letters > 2 && s("text", { class: "st-command", x: from + 4, y: 27 }, short));
    });
  }

  #state({ lane, state, from, to }) {
    const y = this.#y(lane);
    const line = s("line", { class: `st-lane ${state}`, x1: this.#x(from) - this.column / 2, x2: this.#x(to) - this.column / 2, y1: y, y2: y });
    if (state !== "down" || from === 0) return line;
    const x = this.#x(from) - this.column / 2;
    return s("g", { class: "st-crash" }, line, s("path", { d: `M ${x - 5} ${y - 5} l 10 10 M ${x + 5} ${y - 5} l -10 10` }),
      s("title", {}, `${nodeWords(lane)}: ${t("down")}`));
  }

  #cut({ pair: [a, b], from, to }) {
    const [top, bottom] = [this.#y(a), this.#y(b)];
    const x1 = this.#x(from) - this.column / 2;
    const x2 = to === null ? this.time.columns.length * this.column : this.#x(to) - this.column / 2;
    const edge = (x, kind) => s("line", { class: kind, x1: x, x2: x, y1: top, y2: bottom });
    return s("g", { class: "st-cut" },
      s("title", {}, `${nodeWords(a)} ↔ ${nodeWords(b)}: ${t("cutLink")}`),
      s("rect", { x: x1, y: top, width: x2 - x1, height: bottom - top }),
      edge(x1, "begins"), to !== null && edge(x2, "ends"));
  }

  // One that never arrives ends half way. Its words are seen while the play is at its step: `taken` are those of
  // other arrows.
  #arrow({ message, from, to, step, isDropped = false }, taken) {
    const arrives = to !== null && !isDropped;
    const [x1, y1] = [this.#x(from), this.#y(message.from)];
    const [endX, endY] = [this.#x(to ?? from + 2), this.#y(message.to)];
    const [x2, y2] = arrives ? [endX, endY] : [(x1 + endX) / 2, y1 + (endY - y1) * 0.6];
    const kind = isOfClient(message) ? "of-client" : /keeper/.test(message.channel) ? "of-keeper" : /control|isr/.test(message.channel) ? "of-control" : "";
    const words = messageWords(message);
    const ends = t("from", { from: nodeWords(message.from), to: nodeWords(message.to) });
    return s("g", { class: `st-message ${kind}${arrives ? "" : " unfinished"}` },
      s("title", {}, `${words} (${ends})`),
      s("line", { class: "touch", x1, y1, x2, y2 }),
      s("line", { class: "line", x1, y1, x2, y2 }),
      arrives && s("path", { class: "tip", d: "M 0 0 L -9 -3.6 L -9 3.6 z", transform: `translate(${x2} ${y2}) rotate(${(Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI})` }),
      isDropped && s("path", { class: "line", d: `M ${x2 - 4} ${y2 - 4} l 8 8 M ${x2 + 4} ${y2 - 4} l -8 8` }),
      label(words.length > 26 ? `${words.slice(0, 25)}…` : words, { x1, y1, x2, y2, step, end: this.time.columns.length * this.column }, taken));
  }

  // Several of one kind at one place are one, with their number.
  #signs() {
    const places = new Map();
    for (const one of signsOf(this.play, this.time)) {
      const key = `${one.lane}|${one.column}|${one.kind}`;
      places.set(key, { ...one, times: (places.get(key)?.times ?? 0) + 1 });
    }
    return [...places.values()].map(({ lane, column, kind, sign, times }) =>
      s("text", { class: `st-sign ${kind}`, x: this.#x(column), y: this.#y(lane) - 7, "text-anchor": "middle" }, times > 1 ? `${sign}${times}` : sign,
        s("title", {}, t(`spacetime_${kind}`))));
  }

  // ------------------------------------------------------------ choosing

  #watchPointer() {
    const columnAt = (event) => {
      const at = Math.floor((event.clientX - this.svg.getBoundingClientRect().left) / this.column);
      return this.time.columns[Math.min(Math.max(at, 0), this.time.columns.length - 1)];
    };
    this.svg.addEventListener("click", (event) => {
      const arrow = this.arrows.find(({ group }) => group.contains(event.target));
      if (arrow) this.onGo(arrow.step, arrow.beat);
      else this.onGo(columnAt(event).step, null);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1 || event.pointerType === "touch") return;
      const { step } = columnAt(event);
      if (step !== this.step) this.onGo(step, null);
    });
  }

  // ------------------------------------------------------------ where we are

  draw(step, beat) {
    this.step = step;
    const { first, last, columns } = this.time;
    const from = first[step] * this.column;
    const wide = (last[step] + 1) * this.column - from;
    set(this.here, "x", from);
    set(this.here, "width", wide);
    const within = beat === null ? -1 : columns.findIndex((column) => column.step === step && column.beat !== null && column.beat >= beat);
    set(this.moment, "visibility", within < 0 ? "hidden" : "visible");
    if (within >= 0) for (const end of ["x1", "x2"]) set(this.moment, end, this.#x(within));
    for (const arrow of this.arrows) arrow.group.classList.toggle("now", arrow.step === step && (beat === null || arrow.beat === beat));
    const { scrollLeft, clientWidth } = this.scroller;
    if (from < scrollLeft || from + wide > scrollLeft + clientWidth) this.scroller.scrollLeft = from + wide / 2 - clientWidth / 2;
  }
}

// Beside its arrow, where no other words of the step are; nowhere if there is no such place.
function label(words, { x1, y1, x2, y2, step, end }, taken) {
  const width = widthOf(words) + 6;
  for (const part of [0.5, 0.3, 0.7, 0.15, 0.85]) {
    const x = Math.min(x1 + (x2 - x1) * part + 5, end - width);
    const y = y1 + (y2 - y1) * part;
    const isFree = !taken.some((other) => other.step === step && Math.abs(other.y - y) < 13 && x < other.x + other.width && other.x < x + width);
    if (!isFree) continue;
    taken.push({ step, x, y, width });
    return s("text", { x, y }, words);
  }
  return null;
}

const laneName = (lane) => (lane === "keeper" ? t("spacetimeKeeper") : nodeWords(lane));
