// What appears above the page and goes again: menus, the meaning of a term, messages, help, a text to edit.

import { $, h } from "lab/dom.js";
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

// ---------------------------------------------------------------- messages

let fading = 0;

export function clearToast() {
  $(".toast", over)?.remove();
  clearTimeout(fading);
}

export function toast(words, kind = "") {
  clearToast();
  const note = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("p", {}, words),
    h("button", { type: "button", class: "plain icon", "aria-label": t("close"), onclick: () => note.remove() }, "×"));
  over.append(note);
  if (kind !== "bad") fading = setTimeout(() => note.remove(), 7000);
}

// ---------------------------------------------------------------- dialogs

function dialog(title, ...content) {
  $("dialog", over)?.remove();
  const box = h("dialog", { "aria-label": title },
    h("div", { class: "dialog-head" }, h("h2", {}, title), h("button", { type: "button", class: "plain icon", "aria-label": t("close"), onclick: () => box.close() }, "×")),
    content);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => event.target === box && box.close());
  over.append(box);
  box.showModal();
  return box;
}

// A text to copy or to change. `onDone(text)` says whether it could be taken.
export function showText(title, lead, content, onDone = null) {
  const area = h("textarea", { spellcheck: "false", rows: Math.min(content.split("\n").length + 2, 26), readonly: !onDone, "aria-label": title });
  area.value = content;
  const box = dialog(title, lead && h("p", {}, lead), area,
    h("p", { class: "actions" },
      onDone && h("button", { type: "button", class: "button primary", onclick: async () => (await onDone(area.value)) && box.close() }, t("playIt")),
      h("button", { type: "button", class: "button", onclick: () => box.close() }, t(onDone ? "cancel" : "close"))));
  if (!onDone) area.select();
  return box;
}

export function showHelp() {
  closePopover();
  const keys = [["Space", "keySpace"], ["← →", "keyArrows"], ["⇧← ⇧→", "keyShiftArrows"], ["Home End", "keyHomeEnd"], ["[ ]", "keySpeed"], ["f", "keyFork"], ["c", "keyCompare"], ["s", "keyShare"], ["e", "edit"], ["h", "keyCatalogue"], ["?", "keyHelp"], ["Esc", "keyEscape"]];
  dialog(t("help"),
    h("div", { class: "help" },
      h("section", {}, h("h3", {}, t("keys")), h("dl", { class: "keys" }, keys.map(([key, words]) => [h("dt", {}, key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, t(words))]))),
      h("section", {}, h("h3", {}, t("terms")), h("dl", { class: "terms" }, glossary().map(({ term, meaning }) => [h("dt", {}, term), h("dd", {}, meaning)])))));
}

