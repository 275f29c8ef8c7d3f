// What appears above the page and goes again: menus, the meaning of a term, messages, help, a text to edit.

import { $, button, h, text } from "lab/dom.js";
import { glossary, t } from "lab/words.js";

const over = $("#over");
let opener = null;

export function showPopover(anchor, content, { focus = true } = {}) {
  closePopover({ back: false });
  opener = anchor;
  const box = h("div", { class: "popover", role: "dialog", "aria-modal": "false" }, content);
  over.append(box);
  place(box, anchor);
  if (focus) (box.querySelector("button, input:not([type=checkbox]), a") ?? box).focus({ preventScroll: true });
}

export function closePopover({ back = true } = {}) {
  const box = $(".popover", over);
  if (!box) return;
  const held = box.contains(document.activeElement);
  box.remove();
  if (back && held && opener?.isConnected) opener.focus({ preventScroll: true });
}

function place(box, anchor) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(Math.max(at.left + at.width / 2 - width / 2, 8), innerWidth - width - 8);
  const below = at.bottom + 8;
  const top = below + height < innerHeight - 8 ? below : Math.max(at.top - height - 8, 8);
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

addEventListener("pointerdown", (event) => {
  if (!event.target.closest?.(".popover, .term")) closePopover({ back: false });
});

// ---------------------------------------------------------------- terms

export function watchTerms() {
  const show = (event) => {
    const term = event.target.closest?.(".term");
    if (!term) return;
    showPopover(term, [h("p", { class: "term-name" }, term.dataset.term), h("p", {}, term.dataset.meaning)], { focus: false });
    $(".popover", over).classList.add("meaning");
  };
  const hide = (event) => {
    if (event.target.closest?.(".term") && $(".popover.meaning", over)) closePopover({ back: false });
  };
  addEventListener("mouseover", show);
  addEventListener("mouseout", hide);
  addEventListener("focusin", show);
  addEventListener("focusout", hide);
  addEventListener("click", show);
}

const closer = (close) => button("×", close, { class: "plain icon", "aria-label": t("close") });

// ---------------------------------------------------------------- messages

let fading = 0;

export function clearToast() {
  $(".toast", over)?.remove();
  clearTimeout(fading);
}

export function toast(words, kind = "") {
  clearToast();
  const note = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("p", {}, words),
    closer(() => note.remove()));
  over.append(note);
  if (kind !== "bad") fading = setTimeout(() => note.remove(), 7000);
}

// ---------------------------------------------------------------- dialogs

function dialog(title, ...content) {
  $("dialog", over)?.remove();
  const box = h("dialog", { "aria-label": title },
    h("div", { class: "dialog-head" }, h("h2", {}, title), closer(() => box.close())),
    content);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => event.target === box && box.close());
  over.append(box);
  box.showModal();
  return box;
}

// A text to copy or to change. `onDone(text)` says what is wrong with it, or nothing.
export function showText(title, lead, content, onDone = null) {
  const rows = Math.min(content.split("\n").length + 2, 26);
  const area = h("textarea", { spellcheck: "false", rows, readonly: !onDone, "aria-label": title });
  area.value = content;
  const wrong = h("p", { class: "why", role: "alert" });
  const done = async () => {
    const failure = await onDone(area.value);
    if (!failure) return box.close();
    text(wrong, failure);
    selectLine(area, Number(/(?:\bline|第) (\d+)/.exec(failure)?.[1]));
    wrong.scrollIntoView({ block: "nearest" });
  };
  const box = dialog(title, lead && h("p", {}, lead), area, wrong,
    h("p", { class: "actions" },
      onDone && button(t("playIt"), done, { class: "button primary" }),
      button(t(onDone ? "cancel" : "close"), () => box.close())));
  if (!onDone) area.select();
  return box;
}

// Show the line that is spoken of.
function selectLine(area, number) {
  if (!number) return;
  const lines = area.value.split("\n");
  const from = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[number - 1] ?? "").length);
  area.scrollTop = (number - 3) * (area.scrollHeight / lines.length);
}

const KEYS = [
  ["Space", "keySpace"],
  ["← →", "keyArrows"],
  ["⇧← ⇧→", "keyShiftArrows"],
  ["Home End", "keyHomeEnd"],
  ["[ ]", "keySpeed"],
  ["f", "keyFork"],
  ["c", "keyCompare"],
  ["s", "keyShare"],
  ["e", "edit"],
  ["v", "spacetime"],
  ["d", "futures"],
  ["h", "keyCatalogue"],
  ["?", "keyHelp"],
  ["Esc", "keyEscape"],
];

export function showHelp() {
  closePopover();
  const keys = KEYS.map(([signs, words]) =>
    [h("dt", {}, signs.split(" ").map((sign) => h("kbd", {}, sign))), h("dd", {}, t(words))]);
  const terms = glossary().map(({ term, meaning }) => [h("dt", {}, term), h("dd", {}, meaning)]);
  dialog(t("help"),
    h("div", { class: "help" },
      h("section", {}, h("h3", {}, t("keys")), h("dl", { class: "keys" }, keys)),
      h("section", {}, h("h3", {}, t("terms")), h("dl", { class: "terms" }, terms))));
}

