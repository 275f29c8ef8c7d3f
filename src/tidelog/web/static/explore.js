// A search: schedules are drawn and played until one breaks a promise, and that one is made as short as it can be.
//
// It can be stopped at any time; what was found until then stays.

import { button, fill, h, text } from "lab/dom.js";
import { playLink } from "lab/links.js";
import { CannotPlay, source } from "lab/source.js";
import { failureWords, t } from "lab/words.js";

const GENERATIONS = ["hw", "kip101", "epoch", "elr", "majority"];
const SEEDS = 1_000_000_000;

// `story`: {text, generation, step}, which every schedule begins with.
export function explorePage(story) {
  const search = new Search(story);
  addEventListener("hashchange", () => search.close(), { once: true });
  return search.element;
}

class Search {
  constructor(story) {
    this.story = story;
    this.last = null;
    this.stopping = null;
    this.error = h("p", { class: "why", role: "alert" });
    this.bar = h("progress", { max: 1, value: 0, "aria-label": t("exploreProgress") });
    this.said = h("p", { class: "explore-said", role: "status" });
    this.stop = button(t("exploreStop"), () => this.stopping?.abort(), { class: "button stop" });
    this.progress = h("div", { class: "explore-progress", hidden: true }, this.bar, this.said, this.stop);
    this.found = h("section", { class: "explore-found", "aria-live": "polite" });
    this.begin = h("button", { type: "submit", class: "button primary" }, t("exploreBegin"));
    this.form = this.#form();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.element = h("section", { class: "make explore", id: "story" },
      h("h1", {}, t("exploreTitle")),
      h("p", { class: "lead" }, story ? t("exploreFrom", { name: /^scenario\s+(\S+)/m.exec(story.text)?.[1] ?? "", step: story.step }) : t("exploreLead")),
      this.form, this.error, this.progress, this.found);
  }

  #form() {
    const field = (words, input) => h("label", { class: "field" }, h("span", {}, t(words)), input);
    const option = (value, chosen) => h("option", { value, selected: value === chosen }, value);
    const choice = (name, values, chosen) => h("select", { name }, values.map((value) => option(value, chosen)));
    const number = (name, value, max, min = 1) => h("input", { name, type: "number", min, max, value, required: true });
    const check = (name, words) => h("label", { class: "check" }, h("input", { type: "checkbox", name }), t(words));
    const seed = Math.floor(Math.random() * SEEDS);
    return h("form", { class: "maker" },
      field("makeRules", choice("generation", GENERATIONS, this.story?.generation ?? "hw")),
      !this.story && [
        field("makeBrokers", number("brokers", 3, 9)),
        field("makeReplicas", number("replicas", 3, 9)),
        field("makeMinInsync", number("min_insync", 1, 9)),
        field("makeAcks", choice("acks", ["all", "1", "0"], "all")),
      ],
      field("exploreSchedules", number("schedules", 2000, 100_000)),
      field("exploreSeed", number("seed", seed, SEEDS, 0)),
      !this.story && h("div", { class: "checks" }, check("unclean", "makeUnclean"), check("idempotent", "makeIdempotent")),
      h("p", { class: "actions" }, this.begin));
  }

  get asked() {
    const wanted = {};
    for (const input of this.form.elements) {
      if (input.name) wanted[input.name] = input.type === "number" ? Number(input.value) : input.type === "checkbox" ? input.checked : input.value;
    }
    return this.story ? { ...wanted, text: this.story.text, step: this.story.step } : wanted;
  }

  async run() {
    this.stopping = new AbortController();
    this.last = null;
    this.began = performance.now();
    text(this.error, "");
    fill(this.found);
    this.progress.hidden = false;
    this.begin.disabled = true;
    this.stop.hidden = false;
    this.bar.removeAttribute("value");
    text(this.said, t("exploreWaits"));
    try {
      await source.explore(this.asked, (reply) => this.#hear(reply), this.stopping.signal);
    } catch (error) {
      if (error instanceof CannotPlay) text(this.error, failureWords(error.message));
      else if (error.name !== "AbortError") throw error;
    }
    this.#end();
  }

  #hear(reply) {
    if (this.stopping.signal.aborted) return;
    this.last = reply;
    const { searched, schedules, found } = reply;
    this.bar.value = found ? 1 - found.steps / found.steps_as_found : searched / schedules;
    const rate = Math.round(searched / Math.max((performance.now() - this.began) / 1000, 0.1));
    text(this.said, found
      ? t("exploreShrinks", { invariant: found.invariant, steps: found.steps, of: found.steps_as_found })
      : t("exploreSearched", { searched, schedules, rate }));
  }

  #end() {
    this.begin.disabled = false;
    this.stop.hidden = true;
    const stopped = this.stopping.signal.aborted;
    this.stopping = null;
    if (!this.last) {
      this.progress.hidden = true;
      return;
    }
    const { searched, found } = this.last;
    this.bar.value = 1;
    text(this.said, t(stopped ? "exploreStopped" : "exploreDone", { searched }));
    fill(this.found, found ? this.#finding(found) : h("p", { class: "banner parts" }, h("b", {}, t("exploreNothing"))));
    this.found.scrollIntoView({ block: "nearest" });
  }

  #finding(found) {
    const watch = h("a", { class: "button primary" }, t("watchIt"));
    playLink(found).then((link) => (watch.href = link));
    return [
      h("h2", {}, t("exploreFound", { invariant: found.invariant })),
      h("p", {}, found.message),
      found.claim && h("p", { class: "explore-claim" }, t("exploreRule", { claim: found.claim })),
      h("p", { class: "explore-claim" }, t(found.shrunk ? "exploreShrunk" : "exploreUnshrunk", { steps: found.steps, of: found.steps_as_found })),
      h("p", { class: "actions" }, watch),
      h("pre", { class: "explore-text" }, found.text),
    ];
  }

  // The page goes elsewhere.
  close() {
    this.stopping?.abort();
  }
}
