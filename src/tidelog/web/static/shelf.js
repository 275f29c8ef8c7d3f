// The catalogue: the first page.

import { KINDS } from "lab/account.js";
import { button, fill, h } from "lab/dom.js";
import { scenarioLink } from "lab/links.js";
import { Play } from "lab/play.js";
import { SceneView } from "lab/scene.js";
import { CannotPlay, source } from "lab/source.js";
import { t, translated } from "lab/words.js";

// Under which rules a card opens: the first of these that break a promise.
const TELLING = ["hw", "kip101", "epoch"];
const PREVIEW_ROOM = 250;

export async function shelfPage(openFile) {
  const shelf = await source.shelf();
  const generations = shelf.generations.map(({ name }) => name);
  const groups = shelf.groups.map((group) => h("section", { class: "group" },
    h("h2", {}, translated(group.title)),
    h("ul", { class: "cards" }, group.scenarios.map((scenario) => card(scenario, generations)))));
  const nothing = h("p", { class: "no-match", hidden: true }, t("noMatch"));
  const find = () => narrow(groups, filter.value, nothing);
  const filter = h("input", { type: "search", class: "filter", placeholder: t("filter"), "aria-label": t("filter"), oninput: find });
  return h("div", { class: "shelf", id: "story" },
    h("section", { class: "hero" },
      h("div", {}, h("h1", {}, t("heroTitle")), h("p", { class: "lead" }, t("heroLead"))),
      start(shelf)),
    h("div", { class: "shelf-tools" }, filter,
      source.live && h("a", { class: "button", href: "#/make" }, t("makeOwn")),
      source.live && h("a", { class: "button", href: "#/explore" }, t("explore")),
      source.live && button(t("openFile"), openFile)),
    explained(shelf.generations),
    groups, nothing,
    !source.live && h("p", { class: "note" }, t("exportNote", { version: shelf.version })));
}

function start(shelf) {
  const names = shelf.groups.flatMap((group) => group.scenarios.map((scenario) => scenario.name));
  const name = names.includes("hw-loss") ? "hw-loss" : names[0];
  if (!name) return null;
  const isKnown = name === "hw-loss";
  const card = shelf.groups.flatMap((group) => group.scenarios).find((scenario) => scenario.name === name);
  const picture = h("a", { class: "preview", href: scenarioLink(name, { generation: "hw" }), "aria-hidden": "true", tabindex: -1 });
  preview(picture, name);
  return h("aside", { class: "start" },
    picture,
    h("p", { class: "eyebrow" }, t("startHere")),
    h("h2", {}, isKnown ? t("startTitle") : translated(card.title)),
    h("p", {}, isKnown ? t("startLead") : translated(card.lead)),
    h("p", { class: "actions" },
      h("a", { class: "button primary", href: scenarioLink(name, { generation: "hw" }) }, t("watchIt")),
      h("a", { class: "button", href: scenarioLink(name, { generation: "hw", against: "epoch" }) }, t("compareIt"))));
}

// The picture of a story at its most telling step. It comes when the story has been played.
async function preview(element, name) {
  try {
    const content = await source.text(name);
    const play = new Play((await source.play({ text: content, generation: "hw", against: null })).recording);
    const telling = play.recording.steps.findIndex(({ events = [] }) => events.some(({ key }) => key === "Truncated"));
    const step = telling < 0 ? play.last : telling;
    const view = new SceneView(play, { longest: Math.max(3, play.longest), onPick: () => (location.hash = element.hash) });
    fill(element, view.svg);
    view.resize(Math.max(element.clientWidth - 12, 260), PREVIEW_ROOM);
    view.draw(play.scene(step), { before: play.scene(step - 1) });
    for (const thing of view.svg.querySelectorAll("[tabindex]")) thing.tabIndex = -1;
  } catch (error) {
    if (!(error instanceof CannotPlay)) throw error;
    element.remove();
  }
}

// What the chips below say, and which rules there are.
function explained(generations) {
  return h("details", { class: "explained" },
    h("summary", {}, t("chipsTitle")),
    h("p", {}, h("span", { class: "badge bad" }, h("b", {}, "hw"), ` ${t("lost")} c`), ` ${t("chipLost")}`),
    h("p", {}, h("span", { class: "badge good" }, h("b", {}, "epoch"), ` ${t("held")}`), ` ${t("chipHeld")}`),
    h("dl", {}, generations.map(({ name, summary }) => [h("dt", {}, name), h("dd", {}, translated(summary))])));
}

function card(scenario, generations) {
  const worst = TELLING.find((generation) => outcome(scenario.expect[generation]).bad) ?? "epoch";
  const known = generations.filter((generation) => scenario.expect[generation]);
  const { name, title, lead } = scenario;
  const searched = [name, title, lead, translated(title), translated(lead)].join(" ").toLowerCase();
  return h("li", { class: "card", "data-search": searched },
    h("a", { href: scenarioLink(scenario.name, { generation: known.includes(worst) ? worst : null }) },
      h("h3", {}, translated(scenario.title)),
      scenario.lead && h("p", {}, translated(scenario.lead))),
    h("p", { class: "foot" },
      h("code", {}, scenario.name),
      chips(scenario, known)));
}

// One chip for all rules under which a story ends alike. Each name opens the story under these rules.
function chips({ name, expect }, known) {
  const ends = new Map();
  for (const generation of known) {
    const end = outcome(expect[generation]);
    if (!ends.has(end.words)) ends.set(end.words, { ...end, generations: [] });
    ends.get(end.words).generations.push(generation);
  }
  const link = (generation) => h("a", { href: scenarioLink(name, { generation }) }, generation);
  return [...ends.values()].map(({ bad, words, generations }) =>
    h("span", { class: bad ? "badge bad" : "badge good", title: t(bad ? "chipLost" : "chipHeld") },
      h("b", {}, generations.map((generation, index) => [index > 0 && " ", link(generation)])), ` ${words}`));
}

// What a scenario's author expects of a generation: the first thing that goes wrong, or that all is well.
function outcome(facts) {
  if (!facts) return { bad: false, words: "" };
  const values = (kind) => (kind === "diverged" ? "" : ` ${facts[kind].split(",").join(" ")}`);
  const found = KINDS.filter((kind) => facts[kind]).map((kind) => t(kind) + values(kind));
  return found.length ? { bad: true, words: found.join(t("comma")) } : { bad: false, words: t("held") };
}

function narrow(groups, wanted, nothing) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  let any = false;
  for (const group of groups) {
    let some = false;
    for (const found of group.querySelectorAll(".card")) {
      found.hidden = !words.every((word) => found.dataset.search.includes(word));
      some ||= !found.hidden;
    }
    group.hidden = !some;
    any ||= some;
  }
  nothing.hidden = any;
}

