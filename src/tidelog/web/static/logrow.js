// One replica's log: a row of cells, the two marks that move along it, and what the replica takes itself for.

import { s, set, text, widthOf } from "lab/dom.js";
import { t } from "lab/words.js";

export const EPOCH_COLOURS = 8;
const MARK_WIDTH = 24;
const LOW_ROW = 84;
// In a low picture the name of the zone is close above.
const ZONE_NAME = 34;
const EPOCH_WIDTH = 22;

export class LogRow {
  // `topic` is named only where there are several.
  constructor(key, place, layout, { showsDisk, topic }) {
    this.layout = layout;
    this.showsDisk = showsDisk;
    this.height = layout.cellHeight;
    this.cells = [];
    this.ghosts = s("g", { class: "ghosts" });
    this.cellLayer = s("g");
    this.belief = s("text", { class: "stale" });
    this.known = s("text", { class: "known" }, s("title", {}, t("knownHint")));
    this.knownWords = s("tspan");
    this.known.append(this.knownWords);
    this.end = layout.width - place.x - 16;
    this.hw = mark("hw", this.height, "HW", 1, layout.narrow);
    this.leo = mark("leo", this.height, "LEO", -1, layout.narrow);
    const below = this.height / 2 + 1;
    this.base = s("line", { class: "row-base", x1: -6, y1: below, x2: layout.width - place.x - 16, y2: below });
    this.element = s("g", { class: "row", role: "img", "data-log": key, transform: `translate(${place.x} ${place.y + 4})` },
      this.base, this.belief, this.known,
      s("rect", { class: "other-bar", x: -12, y: -this.height / 2, width: 4, height: this.height, rx: 2 }),
      s("text", { class: "topic", x: layout.width - place.x - 16, y: this.height / 2 - 5, "text-anchor": "end" }, topic),
      this.ghosts, this.cellLayer, this.leo.element, this.hw.element);
  }

  draw(log, { former, broker, part, id, differing, moved, inside }) {
    const { cell } = this.layout;
    const records = log.records;
    const inputs = [log, former, broker, part, inside, [...differing].join()];
    if (this.inputs?.every((input, index) => input === inputs[index])) return;
    this.inputs = inputs;
    while (this.cells.length > records.length) this.cells.pop().element.remove();
    records.forEach((record, offset) => {
      if (!this.cells[offset]) {
        this.cells[offset] = this.#makeCell(offset, moved);
        this.cellLayer.append(this.cells[offset].element);
      }
      const before = former?.records[offset]?.[1] ?? null;
      const replaced = before !== record[1] ? before : null;
      this.#drawCell(this.cells[offset], offset, record, { log, replaced, differs: differing.has(offset) });
    });
    this.#drawGhosts(log, former);
    this.hw.move(log.hw, cell);
    this.leo.move(log.leo, cell);
    set(this.element, "class", `row ${broker.process}`);
    this.#drawWords(log, beliefWords(log, broker, part), knownWords(log, broker, inside));
    const said = this.cells.map(({ words }) => words).join("; ");
    set(this.element, "aria-label", `${t("logOf", { n: id })}: ${said || t("emptyLog")}. HW ${log.hw}, LEO ${log.leo}.`);
  }

  // Above or below the log, at its end or its beginning: where neither of the two marks is, nor other words.
  #drawWords(log, belief, known) {
    const { cell, row } = this.layout;
    const above = { y: -this.height / 2 - 10, mark: log.leo * cell };
    const below = { y: this.height / 2 + 19, mark: log.hw * cell };
    // In a low picture the zone says close above whether it is cut off.
    const sides = row < LOW_ROW ? [below, above] : [above, below];
    const spots = [...sides.map((side) => ({ ...side, anchor: "end" })), ...sides.map((side) => ({ ...side, anchor: "start" }))];
    const end = ({ y }) => (y < 0 && row < LOW_ROW ? this.end - ZONE_NAME : this.end);
    const isFree = (spot, wide) => !spot.isTaken && (spot.anchor === "end" ? spot.mark < end(spot) - wide : spot.mark > wide);
    for (const [element, shown, words] of [[this.belief, this.belief, belief], [this.known, this.knownWords, known]]) {
      const spot = words && spots.find((one) => isFree(one, widthOf(words) + MARK_WIDTH));
      text(shown, spot ? words : "");
      if (!spot) continue;
      for (const other of spots) other.isTaken ||= other.y === spot.y;
      set(element, "x", spot.anchor === "end" ? end(spot) : 0);
      set(element, "y", spot.y);
      set(element, "text-anchor", spot.anchor);
    }
  }

  // Most cells are as they were: those are left alone.
  #drawCell(shown, offset, [epoch, value], { log, replaced, differs }) {
    const state = ["cell", offset < log.hw ? "committed" : "uncommitted"];
    state.push(epoch === null ? "no-epoch" : `epoch-${epoch % EPOCH_COLOURS}`);
    if (differs) state.push("differs");
    if (replaced !== null) state.push("replaced");
    if (value === null) state.push("control");
    if (this.showsDisk && offset < log.synced) state.push("on-disk");
    if (shown.isNew) state.push("new");
    const key = [...state, epoch, value, replaced].join("|");
    if (key === shown.key) return;
    shown.key = key;
    shown.words = cellWords(offset, epoch, value, log);
    const name = value === null ? "·" : value.length > 3 ? `${value.slice(0, 2)}…` : value;
    set(shown.element, "class", state.join(" "));
    text(shown.value, name);
    shown.value.style.fontSize = `${Math.min(15, (this.layout.cell - 8) / (Math.max(name.length, 1) * 0.62))}px`;
    text(shown.epoch, epoch === null || this.layout.cell < EPOCH_WIDTH ? "" : String(epoch));
    text(shown.former, replaced ?? "");
    text(shown.hint, shown.words);
  }

  // Beside another generation: whether that one has another log here.
  mark(isOther) {
    set(this.element, "data-other", isOther);
  }

  #makeCell(offset, moved) {
    const { cell } = this.layout;
    const height = this.height;
    const parts = {
      value: s("text", { class: "value", x: cell / 2 - 1, "text-anchor": "middle", dy: "0.36em" }),
      epoch: s("text", { class: "epoch", x: cell - 6, y: height / 2 - 4, "text-anchor": "end" }),
      former: s("text", { class: "former", x: 3, y: -height / 2 - 3 }),
      hint: s("title"),
    };
    const element = s("g", { transform: `translate(${offset * cell} 0)` },
      s("rect", { class: "box", x: 1, y: -height / 2, width: cell - 3, height, rx: 4 }),
      s("rect", { class: "disk", x: 5, y: height / 2 - 4, width: cell - 11, height: 2, rx: 1 }),
      s("text", { class: "differs-mark", x: 5, y: -height / 2 + 9 }, "≠"),
      parts.value, parts.epoch, parts.former, parts.hint);
    return { element, isNew: moved, ...parts };
  }

  // What this step has cut off, where it was.
  #drawGhosts(log, former) {
    this.ghosts.replaceChildren();
    if (!former || former.leo <= log.leo) return;
    const { cell } = this.layout;
    for (let offset = log.leo; offset < former.leo; offset += 1) {
      const value = former.records[offset]?.[1] ?? "·";
      this.ghosts.append(s("g", { class: "ghost", transform: `translate(${offset * cell} 0)` },
        s("rect", { x: 1, y: -this.height / 2, width: cell - 3, height: this.height, rx: 4 }),
        s("text", { x: cell / 2 - 1, "text-anchor": "middle", dy: "0.36em" }, value),
        s("line", { x1: 6, x2: cell - 8, y1: this.height / 2 - 6, y2: -this.height / 2 + 6 })));
    }
  }
}

// What a running broker would tell a client, if that is not what the keeper holds.
function beliefWords(log, broker, part) {
  const believes = log.believes;
  if (broker.process !== "up" || !believes) return "";
  if (believes.leader === part.leader && believes.leader_epoch === part.epoch) return "";
  return believes.leader < 0 ? t("believesNobody") : t("believes", { leader: believes.leader, epoch: believes.leader_epoch });
}

// What a leader knows of its followers, and its leader-epoch table.
function knownWords(log, broker, inside) {
  if (log.role !== "leader" || broker.process !== "up") return "";
  const remote = inside.remote.map(([follower, leo]) => `${follower}: ${leo ?? "?"}`).join(", ");
  const epochs = log.epochs.map(([epoch, start]) => `${epoch}→${start}`).join(" ");
  return [remote && `Remote LEO ${remote}`, epochs && t("knownEpochs", { epochs })].filter(Boolean).join(" · ");
}

function mark(kind, height, name, side, narrow) {
  const y = side * (height / 2);
  const label = s("text", { class: "mark-name", "text-anchor": "middle", y: y + (side > 0 ? 19 : -10) }, name);
  const element = s("g", { class: `mark ${kind}` },
    s("line", { x1: 0, x2: 0, y1: -height / 2 - (side < 0 ? 4 : 0), y2: height / 2 + (side > 0 ? 4 : 0) }),
    s("path", { d: `M 0 ${y + side * 2} l -4.5 ${side * 6} h 9 z` }), label);
  return {
    element,
    move(offset, cell) {
      element.style.transform = `translate(${offset * cell - 0.5}px, 0)`;
      text(label, narrow ? name : `${name} ${offset}`);
      set(element, "data-offset", offset);
    },
  };
}

function cellWords(offset, epoch, value, log) {
  const said = [t("cellLabel", { offset, value: value ?? t("controlRecord") }), t(offset < log.hw ? "committed" : "uncommitted")];
  if (epoch !== null) said.push(t("inEpoch", { epoch }));
  return said.join(", ");
}
