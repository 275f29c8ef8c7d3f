// A scenario of one's own: a cluster from a form, or a text from anywhere. Steps are then made on the stage.

import { $, button, h, text } from "lab/dom.js";
import { playLink } from "lab/links.js";
import { CannotPlay, source } from "lab/source.js";
import { failureWords, t } from "lab/words.js";

const BROKERS_MAX = 9;

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
  const made = h("form", { class: "maker" },
    field("makeName", name),
    field("makeRules", choice("generation", ["hw", "kip101", "epoch", "elr", "majority"], "epoch")),
    field("makeBrokers", number("brokers", 3, BROKERS_MAX)),
    field("makeReplicas", number("replicas", 3, BROKERS_MAX)),
    field("makeMinInsync", number("minInsync", 1, BROKERS_MAX)),
    field("makeAcks", choice("acks", ["all", "1", "0"], "all")),
    field("makeRetries", number("retries", 0, 10, 0)),
    h("div", { class: "checks" },
      check("unclean", "makeUnclean"),
      check("idempotent", "makeIdempotent"),
      check("consumer", "makeConsumer")),
    error,
    h("p", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, t("makeBegin"))));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(new FormData(made));
    await begin(headText(asked), asked.generation, error);
  });
  return h("section", { class: "make", id: "story" }, h("h1", {}, t("makeTitle")), h("p", { class: "lead" }, t("makeLead")), made);
}

function headText({ name, brokers, replicas, minInsync, acks, retries, unclean, idempotent, consumer }) {
  const replicaList = Array.from({ length: Number(replicas) }, (_, index) => index).join(",");
  const last = Number(brokers);
  const producer = [
    `producer p zone=az${Math.min(2, last)} acks=${acks}`,
    Number(retries) > 0 && `retries=${retries}`,
    idempotent && "enable.idempotence=true",
  ];
  const topic = [
    `topic    t replicas=${replicaList}`,
    Number(minInsync) > 1 && `min.insync.replicas=${minInsync}`,
    unclean && "unclean.leader.election.enable=true",
  ];
  return [
    `scenario ${name}`,
    `cluster  brokers=${brokers} controller=${last - 1}`,
    topic.filter(Boolean).join(" "),
    producer.filter(Boolean).join(" "),
    consumer && `consumer c zone=az${Math.min(2, last)}`,
    "",
  ].filter((line) => line !== false && line !== undefined).join("\n");
}

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
