// Words about what is seen: the ledger above, the story beside, the legend below.

import { accountOf, findingWords, isNarrated, KINDS } from "lab/account.js";
import { button, fill, h, set } from "lab/dom.js";
import { EPOCH_COLOURS } from "lab/logrow.js";
import { source } from "lab/source.js";
import { commandWords, eventWords, messageWords, nodeWords, passages, remarkWords, ruleOf, say, t, translated, withTerms } from "lab/words.js";

const SIGNS = { pending: "…", ok: "✓", failed: "✗", unknown: "?", lost: "✗" };

// ---------------------------------------------------------------- the ledger

// Only lines that have changed are replaced; a ledger may be long.
export function drawLedger(element, play, scene, at) {
  if (!element.firstChild) {
    fill(element, h("h2", {}, t("ledger")), h("ol", { class: "chips" }), h("p", { class: "quiet" }, t("ledgerEmpty")));
  }
  const [, list, nothing] = element.children;
  const several = play.cast.clients.filter(({ kind }) => kind === "producer").length > 1;
  const lines = play.ledger(scene, at);
  const former = list.children.length;
  lines.forEach((line, index) => {
    const key = JSON.stringify(line);
    const shown = list.children[index];
    if (shown?.dataset.key === key) return;
    const made = chip(line, several);
    made.dataset.key = key;
    if (shown) shown.replaceWith(made);
    else list.append(made);
  });
  while (list.children.length > lines.length) list.lastElementChild.remove();
  list.hidden = !lines.length;
  nothing.hidden = lines.length > 0;
  if (lines.length > former) list.scrollTo(list.scrollWidth, list.scrollHeight);
}

// `several` producers: then each line says whose it is.
function chip(line, several) {
  const state = line.lost ? "lost" : line.outcome;
  const { replicas, all, most } = line.copies;
  const said = [
    `${line.value}: ${t(`answerLong_${state}`)}`,
    line.error && say(line.error),
    t("copies", { n: replicas, all }),
    most > 1 && t("times", { n: most }),
    `${line.producer}, acks=${line.acks}`,
  ].filter(Boolean);
  const offset = state === "ok" && line.offset !== undefined && h("small", {}, ` @${line.offset}`);
  const many = most > 1 && h("small", { class: "many" }, ` ×${most}`);
  const dots = Array.from({ length: all }, (_, index) => h("i", { class: index < replicas ? "has" : "" }));
  return h("li", { class: `chip ${state}`, title: said.join(" · "), "data-value": line.value },
    h("span", { class: "chip-value" }, line.value),
    h("span", { class: "chip-answer" },
      h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]), t(`answer_${state}`), offset, many),
    h("span", { class: "chip-copies", "aria-hidden": "true" }, dots, several && h("small", {}, line.producer)),
    h("span", { class: "hidden" }, said.slice(1).join(", ")));
}

// ---------------------------------------------------------------- the story

// Where we are and its narration: `beside` is next to the picture, the rest may be further down.
export function drawStory(beside, element, stage) {
  const play = stage.plays[0];
  const at = stage.step;
  const step = play.step(at);
  const chapter = play.chapter(at);
  const seen = new Set();
  const own = chapter.step === at;
  fill(beside, [
    h("p", { class: "counter" }, at === 0 ? t("atStart") : t("stepOf", { step: at, last: stage.last }), clock(play, at)),
    at === 0 && stage.lead && h("p", { class: "narration" }, withTerms(translated(stage.lead), seen)),
    chapter.comment && h("p", { class: own ? "narration" : "narration past" }, withTerms(passages(chapter.comment), seen)),
    at > 0 && !isNarrated(chapter.comment) && h("p", { class: "narration computed" }, withTerms(accountOf(play, at), seen)),
    deeds(stage, chapter.step, seen),
  ]);
  const parts = [];
  if (stage.beat !== null) parts.push(moment(play.beats(at)[stage.beat] ?? {}));
  if (step.remarks) parts.push(h("p", { class: "remark" }, remarkWords(step.remarks)));
  if (!stage.against) parts.push(happenings(step, seen), rule(step));
  if (at === 0 && stage.last > 0) parts.push(h("p", { class: "hint" }, t("begin")), source.live && h("p", { class: "quiet" }, t("clickHint")));
  if (at === 0 && !stage.recording.steps[1]) parts.push(h("p", { class: "hint" }, t("makeHint")));
  if (at === stage.last && at > 0 && !stage.against) parts.push(verdict(play, stage));
  fill(element, parts);
}

// The cluster's own time: waits and time-outs are long, and pass in no time here.
function clock(play, at) {
  const seconds = ((play.scene(at).now.at - play.scene(0).now.at) / 1000).toFixed(1);
  return h("span", { class: "clock" }, t("clock", { seconds }));
}

// Within a step: what has just arrived.
function moment({ messages = [] }) {
  const line = (message) => h("li", {},
    h("b", {}, `${nodeWords(message.from)} → ${nodeWords(message.to)}`), ` ${messageWords(message)}`);
  return messages.length > 0 && h("ul", { class: "moment" }, messages.map(line));
}

const rulesOf = (stage) => stage.plays.map(({ recording }) => recording.generation);

// The steps that the comment tells of: those done, the one we are at, those to come.
function deeds(stage, first, seen) {
  const play = stage.plays[0];
  if (stage.step === 0) return h("p", { class: "deed" }, withTerms(commandWords(""), seen));
  let end = Math.max(first, 1);
  while (end < play.last && play.chapter(end + 1).step === first) end += 1;
  const from = Math.max(first, 1, stage.step - 6);
  const items = [];
  for (let at = from; at <= Math.min(end, stage.step + 4); at += 1) {
    const { command } = play.step(at);
    const words = commandWords(command, rulesOf(stage));
    if (at === stage.step) {
      items.push(h("li", { class: "now" }, h("span", {}, withTerms(words, seen)), h("code", {}, command)));
    } else {
      items.push(h("li", { class: at < stage.step ? "done" : "" }, button(words, () => stage.jump(at), { class: "plain" })));
    }
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
      h("li", { class: `event ${event.key}${event.inner ? " inner" : ""}` }, withTerms(said, seen), times > 1 && h("small", {}, ` ×${times}`)))),
    lines.length > 14 && h("p", { class: "quiet" }, `+ ${lines.length - 14}`));
}

export function paneEvents(element, play, at, stage) {
  const step = play.step(at);
  const found = [
    at === play.last && at > 0 && verdict(play, stage),
    happenings(step),
    step.remarks && h("p", { class: "remark" }, remarkWords(step.remarks)),
    rule(step),
  ].filter(Boolean);
  fill(element, found.length ? found : h("p", { class: "quiet" }, t("nothingHappened")));
}

function rule(step) {
  const found = ruleOf(step);
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
    bad.length > 0 && h("ul", {}, bad.map((kind) => h("li", {}, `${t(`${kind}Long`)}: `, h("b", {}, findingWords(kind, found[kind]))))),
    broken.length > 0 && brokenInvariants(broken),
    surprises.length > 0 && h("p", { class: "remark", lang: "en" }, t("notAsExpected", { what: surprises.join("; ") })),
    !stage.against && button(t("tryUnder", { generation: other }), () => stage.change({ against: other }), { class: "button small" }));
}

function brokenInvariants(broken) {
  const [{ invariant: name, step }] = broken;
  const lines = broken.map((one) => h("li", { lang: "en" }, `${one.invariant} (${one.step}): ${one.message}`));
  return h("details", {}, h("summary", {}, t("invariant", { name, step })), h("ul", {}, lines));
}

// The whole script, made once; `drawScript` then marks where we are.
export function makeScript(stage) {
  const items = stage.recording.steps.slice(1).map(({ command, comment }, index) => {
    const at = index + 1;
    const remove = { class: "plain remove", title: t("removeStep"), "aria-label": `${t("removeStep")}: ${command}` };
    return h("li", {},
      comment && h("p", { class: "chapter" }, passages(comment)),
      h("div", { class: "line" },
        button(command, () => stage.jump(at), { class: "plain jump" }),
        source.live && button("×", () => stage.removeStep(at), remove)));
  });
  const title = t(stage.isChanged ? "yourScript" : "script");
  return h("details", { class: "script" },
    h("summary", {}, title, h("small", {}, t("stepCount", { n: items.length }))), h("ol", {}, items));
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
  const where = t("stepOf", { step: stage.step, last: stage.last });
  const said = [where, step.comment && passages(step.comment), commandWords(step.command, rulesOf(stage)), ...events];
  return said.filter(Boolean).join(". ");
}

// ---------------------------------------------------------------- the legend

const LEGEND = [
  ["flag-hw", "legendHw"],
  ["flag-leo", "legendLeo"],
  ["ring-isr", "legendIsr"],
  ["sign-crown", "legendCrown"],
  ["cell-gone", "legendGone"],
  ["cell-differs", "legendDiffers"],
];
const DISK = ["cell-disk", "legendDisk"];
const ELIGIBLE = ["ring-elr", "legendElr"];

// In the colours of the cells that there are: without epochs all are grey.
function cellEntries(plays) {
  const logs = plays.flatMap(({ scenes }) => Object.entries(scenes.at(-1)).filter(([key]) => key.startsWith("log/")));
  const epochs = logs.flatMap(([, { records }]) => records.map(([epoch]) => epoch)).filter((epoch) => epoch !== null);
  const colours = [...new Set(epochs)].sort((a, b) => a - b).map((epoch) => `epoch-${epoch % EPOCH_COLOURS}`);
  const colour = colours[0] ?? "no-epoch";
  return [
    [`cell-committed ${colour}`, "legendCommitted"],
    [`cell-uncommitted ${colour}`, "legendUncommitted"],
    ...colours.slice(0, 2).map((one) => [`cell-committed ${one}`, "legendEpoch"]).slice(-1),
  ];
}

export function drawLegend(plays, showsDisk) {
  const showsEligible = plays.some(({ recording }) => recording.generation === "elr");
  const entries = [...cellEntries(plays), ...LEGEND, ...(showsEligible ? [ELIGIBLE] : []), ...(showsDisk ? [DISK] : [])];
  const sample = (kind) => h("span", { class: `sample ${kind}`, "aria-hidden": "true" });
  return h("details", { class: "legend", open: innerWidth >= 900 }, h("summary", {}, t("legend")),
    h("ul", {}, entries.map(([kind, words]) => h("li", {}, sample(kind), t(words)))));
}

