// Words about what is seen: the ledger above, the story beside, the legend below.

import { fill, h, set } from "lab/dom.js";
import { source } from "lab/source.js";
import { commandWords, eventWords, messageWords, nodeWords, remarkWords, ruleOf, t, told, withTerms } from "lab/words.js";

const KINDS = ["lost", "duplicated", "diverged", "rewritten", "reordered", "phantom"];
const SIGNS = { pending: "…", ok: "✓", failed: "✗", unknown: "?", lost: "✗" };

// ---------------------------------------------------------------- the ledger

export function drawLedger(element, play, scene, at) {
  const lines = play.ledger(scene, at);
  const key = JSON.stringify(lines);
  if (element.dataset.key === key && element.dataset.lang === document.documentElement.lang) return;
  element.dataset.key = key;
  element.dataset.lang = document.documentElement.lang;
  fill(element, h("h2", {}, t("ledger")),
    lines.length ? h("ol", { class: "chips" }, lines.map(chip)) : h("p", { class: "quiet" }, t("ledgerEmpty")));
  const chips = element.lastElementChild;
  chips.scrollTo(chips.scrollWidth, chips.scrollHeight);
}

function chip(line) {
  const state = line.lost ? "lost" : line.outcome;
  const { replicas, all, most } = line.copies;
  const said = [`${line.value}: ${t(`toldLong_${state}`)}`, line.error, t("copies", { n: replicas, all }), most > 1 && t("times", { n: most }), `${line.producer}, acks=${line.acks}`].filter(Boolean);
  const dots = Array.from({ length: all }, (_, index) => h("i", { class: index < replicas ? "has" : "" }));
  return h("li", { class: `chip ${state}`, title: said.join(" · "), "data-value": line.value },
    h("span", { class: "chip-value" }, line.value),
    h("span", { class: "chip-told" }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]), t(`told_${state}`), line.outcome === "ok" && !line.lost && line.offset !== undefined && h("small", {}, ` @${line.offset}`), most > 1 && h("small", { class: "many" }, ` ×${most}`)),
    h("span", { class: "chip-copies", "aria-hidden": "true" }, dots),
    h("span", { class: "hidden" }, said.slice(1).join(", ")));
}

// ---------------------------------------------------------------- the story

export function drawStory(element, stage) {
  const play = stage.plays[0];
  const at = stage.step;
  const step = play.step(at);
  const chapter = play.chapter(at);
  const seen = new Set();
  const own = chapter.step === at;
  const parts = [
    h("p", { class: "counter" }, at === 0 ? t("atStart") : t("stepOf", { step: at, last: stage.last })),
    at === 0 && stage.lead && h("p", { class: "narration" }, withTerms(told(stage.lead), seen)),
    chapter.comment && h("p", { class: own ? "narration" : "narration past" }, withTerms(told(chapter.comment), seen)),
    deeds(stage, chapter.step, seen),
  ];
  if (stage.beat !== null) parts.push(moment(play.beats(at)[stage.beat] ?? {}));
  if (step.remark) parts.push(h("p", { class: "remark" }, remarkWords(step.remark)));
  if (!stage.against) parts.push(happenings(step, seen), rule(step, stage.generation));
  if (at === 0 && stage.last > 0) parts.push(h("p", { class: "hint" }, t("begin")));
  if (at === 0 && !stage.recording.steps[1]) parts.push(h("p", { class: "hint" }, t("makeHint")));
  if (at === stage.last && at > 0 && !stage.against) parts.push(verdict(play, stage));
  fill(element, parts);
}

// Within a step: what has just arrived.
function moment({ messages = [] }) {
  return h("ul", { class: "moment" }, messages.map((message) => h("li", {}, h("b", {}, `${nodeWords(message.from)} → ${nodeWords(message.to)}`), ` ${messageWords(message)}`)));
}

// The steps that the comment tells of: those done, the one we are at, those to come.
function deeds(stage, first, seen) {
  const play = stage.plays[0];
  if (stage.step === 0) return h("p", { class: "deed" }, withTerms(commandWords(""), seen));
  let end = Math.max(first, 1);
  while (end < play.last && !play.step(end + 1).comment) end += 1;
  const from = Math.max(first, 1, stage.step - 6);
  const items = [];
  for (let at = from; at <= Math.min(end, stage.step + 4); at += 1) {
    const { command } = play.step(at);
    const now = at === stage.step;
    items.push(h("li", { class: now ? "now" : at < stage.step ? "done" : "" },
      now ? h("span", {}, withTerms(commandWords(command), seen)) : h("button", { type: "button", class: "plain", onclick: () => (stage.pause(), stage.go(at)) }, commandWords(command)),
      now && h("code", {}, command)));
  }
  return h("ol", { class: "deeds" }, items);
}

function happenings(step, seen = new Set()) {
  const events = step.events ?? [];
  if (!events.length) return null;
  const lines = [];
  for (const event of events) {
    const said = eventWords(event);
    const last = lines.at(-1);
    if (last?.said === said) last.times += 1;
    else lines.push({ said, event, times: 1 });
  }
  return h("section", { class: "happened" }, h("h2", {}, t("whatHappened")),
    h("ol", {}, lines.slice(0, 14).map(({ said, event, times }) =>
      h("li", { class: `event ${event.kind}` }, withTerms(said, seen), times > 1 && h("small", {}, ` ×${times}`)))),
    lines.length > 14 && h("p", { class: "quiet" }, `+ ${lines.length - 14}`));
}

export function paneEvents(element, play, at, stage) {
  const step = play.step(at);
  const found = [at === play.last && at > 0 && verdict(play, stage), happenings(step), step.remark && h("p", { class: "remark" }, remarkWords(step.remark)), rule(step, play.recording.generation)].filter(Boolean);
  fill(element, found.length ? found : h("p", { class: "quiet" }, t("nothingHappened")));
}

function rule(step, generation) {
  const found = ruleOf(step, generation);
  if (!found) return null;
  return h("section", { class: "rule" },
    h("h2", {}, t("theRule"), found.source && h("small", {}, found.source)),
    h("p", { class: "rule-title" }, found.title),
    h("p", {}, withTerms(found.text)));
}

function verdict(play, stage) {
  const { verdict: found, generation, surprises } = play.recording;
  // Claims about the end are for stories that let the cluster recover; a draft may stop anywhere.
  const broken = play.recording.broken.filter(({ step }) => step <= play.last);
  const bad = KINDS.filter((kind) => found[kind].length);
  const other = generation === "hw" ? "epoch" : "hw";
  return h("section", { class: bad.length ? "verdict bad" : "verdict good", "data-generation": generation },
    h("h2", {}, t("verdict"), h("small", {}, generation)),
    h("p", { class: "verdict-title" }, t(bad.length ? "verdictBroken" : "verdictHeld")),
    bad.length > 0 && h("ul", {}, bad.map((kind) => h("li", {}, `${t(`${kind}Long`)}: `, h("b", {}, found[kind].map((finding) => (kind === "diverged" ? `@${finding.offset} ${finding.value}` : finding.value)).join(", "))))),
    broken.length > 0 && h("details", {}, h("summary", {}, t("invariant", { name: broken[0].invariant, step: broken[0].step })), h("ul", {}, broken.map((one) => h("li", { lang: "en" }, `${one.invariant} (${one.step}): ${one.message}`)))),
    play.recording.expected && surprises.length > 0 && h("p", { class: "remark", lang: "en" }, t("notAsExpected", { what: surprises.join("; ") })),
    !stage.against && h("button", { type: "button", class: "button small", onclick: () => stage.change({ against: other }) }, t("tryUnder", { generation: other })));
}

// The whole script, made once; `drawScript` then marks where we are.
export function makeScript(stage) {
  const items = stage.recording.steps.slice(1).map(({ command, comment }, index) => {
    const at = index + 1;
    return h("li", {},
      comment && h("p", { class: "chapter" }, told(comment)),
      h("div", { class: "line" },
        h("button", { type: "button", class: "plain jump", onclick: () => (stage.pause(), stage.go(at)) }, command),
        source.live && h("button", { type: "button", class: "plain remove", title: t("removeStep"), "aria-label": `${t("removeStep")}: ${command}`, onclick: () => stage.removeStep(at) }, "×")));
  });
  return h("details", { class: "script" }, h("summary", {}, t(stage.isChanged ? "yourScript" : "script"), h("small", {}, t("stepCount", { n: items.length }))), h("ol", {}, items));
}

export function drawScript(element, stage) {
  const former = element.querySelector("li.now");
  const now = element.querySelectorAll("li")[stage.step - 1];
  if (former === now) return;
  if (former) {
    set(former, "class", null);
    set(former.querySelector(".jump"), "aria-current", null);
  }
  if (!now) return;
  set(now, "class", "now");
  set(now.querySelector(".jump"), "aria-current", "step");
  if (element.open) now.scrollIntoView({ block: "nearest" });
}

// What a screen reader says when the step has changed.
export function liveWords(stage) {
  if (stage.playing && stage.speed > 1) return "";
  const play = stage.plays[0];
  const step = play.step(stage.step);
  const events = (step.events ?? []).slice(0, 5).map(eventWords);
  return [t("stepOf", { step: stage.step, last: stage.last }), step.comment && told(step.comment), commandWords(step.command), ...events].filter(Boolean).join(". ");
}

// ---------------------------------------------------------------- the legend

export function drawLegend(showsDisk) {
  const entries = [["cell-committed", "legendCommitted"], ["cell-uncommitted", "legendUncommitted"], ["cell-epoch", "legendEpoch"], ["flag-hw", "legendHw"], ["flag-leo", "legendLeo"], ["ring-isr", "legendIsr"], ["sign-crown", "legendCrown"], ["cell-gone", "legendGone"], ["cell-differs", "legendDiffers"]];
  if (showsDisk) entries.push(["cell-disk", "legendDisk"]);
  return h("details", { class: "legend", open: innerWidth >= 900 }, h("summary", {}, t("legend")),
    h("ul", {}, entries.map(([kind, words]) => h("li", {}, h("span", { class: `sample ${kind}`, "aria-hidden": "true" }), t(words)))));
}

