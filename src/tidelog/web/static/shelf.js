// The catalogue: where everybody begins.

import { KINDS } from "lab/account.js";
import { button, h } from "lab/dom.js";
import { scenarioLink } from "lab/links.js";
import { source } from "lab/source.js";
import { t, told } from "lab/words.js";

const SHOWN = ["hw", "epoch"];

export async function shelfPage(openFile) {
  const shelf = await source.shelf();
  const groups = shelf.groups.map((group) => h("section", { class: "group" },
    h("h2", {}, told(group.title)),
    h("ul", { class: "cards" }, group.scenarios.map(card))));
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
    groups, nothing,
    !source.live && h("p", { class: "note" }, t("exportNote", { version: shelf.version })));
}

function start(shelf) {
  const names = shelf.groups.flatMap((group) => group.scenarios.map((scenario) => scenario.name));
  const name = names.includes("hw-loss") ? "hw-loss" : names[0];
  if (!name) return null;
  const isKnown = name === "hw-loss";
  const card = shelf.groups.flatMap((group) => group.scenarios).find((scenario) => scenario.name === name);
  return h("aside", { class: "start" },
    h("p", { class: "eyebrow" }, t("startHere")),
    h("h2", {}, isKnown ? t("startTitle") : told(card.title)),
    h("p", {}, isKnown ? t("startLead") : told(card.lead)),
    h("p", { class: "actions" },
      h("a", { class: "button primary", href: scenarioLink(name, { generation: "hw" }) }, t("watchIt")),
      h("a", { class: "button", href: scenarioLink(name, { generation: "hw", against: "epoch" }) }, t("compareIt"))));
}

function card(scenario) {
  const worst = SHOWN.find((generation) => outcome(scenario.expect[generation]).bad) ?? "epoch";
  const known = SHOWN.filter((generation) => scenario.expect[generation]);
  const { name, title, lead } = scenario;
  const searched = [name, title, lead, told(title), told(lead)].join(" ").toLowerCase();
  return h("li", { class: "card", "data-search": searched },
    h("a", { href: scenarioLink(scenario.name, { generation: known.includes(worst) ? worst : null }) },
      h("h3", {}, told(scenario.title)),
      scenario.lead && h("p", {}, told(scenario.lead))),
    h("p", { class: "foot" },
      h("code", {}, scenario.name),
      known.map((generation) => badge(generation, outcome(scenario.expect[generation])))));
}

// What a scenario's author expects of a generation: the first thing that goes wrong, or that all is well.
function outcome(facts) {
  if (!facts) return { bad: false, words: "" };
  const values = (kind) => (kind === "diverged" ? "" : ` ${facts[kind].split(",").join(" ")}`);
  const found = KINDS.filter((kind) => facts[kind]).map((kind) => t(kind) + values(kind));
  return found.length ? { bad: true, words: found.join(t("comma")) } : { bad: false, words: t("held") };
}

function badge(generation, { bad, words }) {
  return h("span", { class: bad ? "badge bad" : "badge good" }, h("b", {}, generation), ` ${words}`);
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

