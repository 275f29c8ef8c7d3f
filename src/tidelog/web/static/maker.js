// A scenario of one's own: a cluster from a form, or a text from anywhere. Steps are then made on the stage.

import { $, button, h, text } from "lab/dom.js";
import { playLink } from "lab/links.js";
import { CannotPlay, source } from "lab/source.js";
import { failureWords, t } from "lab/words.js";

const BROKERS_MAX = 9;
const PRODUCERS = ["p", "q", "r", "s"];
const CONSUMER = "c";
const TOPICS = ["t", "u", "v"];

export function makerPage(content = null) {
  return content === null ? form() : editor(content);
}

function form() {
  const number = (name, value, max, min = 1) => h("input", { name, type: "number", min, max, value, required: true });
  const check = (name, words) => h("label", { class: "check" }, h("input", { type: "checkbox", name }), t(words));
  const field = (words, input) => h("label", { class: "field" }, h("span", {}, t(words)), input);
  const option = (value, chosen) => h("option", { value, selected: value === chosen }, value);
  const choice = (name, values, chosen) => h("select", { name }, values.map((value) => option(value, chosen)));
  const name = h("input", { name: "name", type: "text", value: "my-scenario", pattern: "[A-Za-z0-9._\\-]+", required: true });
  const error = h("p", { class: "why", role: "alert" });
  const routes = h("div", { class: "routes" });
  const made = h("form", { class: "maker" },
    field("makeName", name),
    field("makeRules", choice("generation", ["hw", "kip101", "epoch", "elr", "majority"], "epoch")),
    field("makeBrokers", number("brokers", 3, BROKERS_MAX)),
    field("makeReplicas", number("replicas", 3, BROKERS_MAX)),
    field("makeMinInsync", number("minInsync", 1, BROKERS_MAX)),
    field("makeAcks", choice("acks", ["all", "1", "0"], "all")),
    field("makeRetries", number("retries", 0, 10, 0)),
    field("makeProducers", number("producers", 1, PRODUCERS.length)),
    field("makeZones", number("zones", 3, BROKERS_MAX)),
    field("makeTopics", number("topics", 1, TOPICS.length)),
    routes,
    h("div", { class: "checks" },
      check("unclean", "makeUnclean"),
      check("idempotent", "makeIdempotent"),
      check("consumer", "makeConsumer"),
      check("flush", "makeFlush")),
    error,
    h("p", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, t("makeBegin"))));
  // With more than one topic, each client is asked for its own.
  const askForTopics = () => {
    const asked = Object.fromEntries(new FormData(made));
    const topics = TOPICS.slice(0, Number(asked.topics));
    const clients = [...PRODUCERS.slice(0, Number(asked.producers)), ...(asked.consumer ? [CONSUMER] : [])];
    routes.replaceChildren(...(topics.length < 2 ? [] : clients.map((client) => {
      const words = t(client === CONSUMER ? "makeReads" : "makeWrites", { client });
      return h("label", { class: "field" }, h("span", {}, words), choice(`topic-${client}`, topics, asked[`topic-${client}`]));
    })));
  };
  made.addEventListener("input", askForTopics);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(new FormData(made));
    await begin(headText(asked), asked.generation, error);
  });
  return h("section", { class: "make", id: "story" }, h("h1", {}, t("makeTitle")), h("p", { class: "lead" }, t("makeLead")), made);
}

function headText(asked) {
  const { name, acks, retries, minInsync, unclean, idempotent, consumer, flush } = asked;
  const [brokers, replicas, producers, topics] = ["brokers", "replicas", "producers", "topics"].map((key) => Number(asked[key]));
  const zones = Math.min(Number(asked.zones), brokers);
  const zone = (index) => `az${(index % zones) + 1}`;
  const line = (...words) => words.filter(Boolean).join(" ");
  const topicOf = (client) => ![undefined, TOPICS[0]].includes(asked[`topic-${client}`]) && `topic=${asked[`topic-${client}`]}`;
  return [
    `scenario ${name}`,
    line(`cluster  brokers=${brokers} controller=${brokers - 1}`,
      zones < brokers && `zones=${times(zones, zone).join(",")}`, flush && "flush=always"),
    // Each topic begins with another broker, so that leaders are spread.
    ...TOPICS.slice(0, topics).map((topic, first) => line(
      `topic    ${topic} replicas=${times(replicas, (index) => (index + first) % brokers).join(",")}`,
      Number(minInsync) > 1 && `min.insync.replicas=${minInsync}`,
      unclean && "unclean.leader.election.enable=true")),
    ...PRODUCERS.slice(0, producers).map((producer, index) => line(
      `producer ${producer} zone=${zone(index + 1)}`, topicOf(producer), `acks=${acks}`,
      Number(retries) > 0 && `retries=${retries}`,
      idempotent && "enable.idempotence=true")),
    ...(consumer ? [line(`consumer ${CONSUMER} zone=${zone(1)}`, topicOf(CONSUMER))] : []),
    "",
  ].join("\n");
}

const times = (count, of) => Array.from({ length: count }, (_, index) => of(index));

// Only what can be played is opened; else the reason is beside the form.
async function begin(content, generation, error) {
  try {
    await source.play({ text: content, generation: generation ?? null });
  } catch (reason) {
    if (!(reason instanceof CannotPlay)) throw reason;
    text(error, failureWords(reason.message));
    return;
  }
  location.hash = await playLink({ text: content, generation });
}

function editor(content) {
  const area = h("textarea", { spellcheck: "false", rows: 24, "aria-label": t("text") });
  area.value = content;
  const error = h("p", { class: "why", role: "alert" });
  const page = h("section", { class: "make", id: "story" }, h("h1", {}, t("text")), area, error,
    h("p", { class: "actions" },
      button(t("playIt"), () => begin(area.value, null, error), { class: "button primary" }),
      h("a", { class: "button", href: "#/" }, t("backToCatalogue"))));
  begin(content, null, $(".why", page));
  return page;
}
