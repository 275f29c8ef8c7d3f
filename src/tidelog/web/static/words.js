// Every word the page says, in the reader's language. What happened comes with the recording as keys and fields;
// the texts of scenarios come in English, and are looked up by their English text.

import { h } from "lab/dom.js";

export const LANGUAGES = { en: "English", zh: "中文" };

let words = null;
let language = "en";

export function setWords(found) {
  words = found;
}

export function setLanguage(wanted) {
  language = wanted in LANGUAGES ? wanted : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export const languageNow = () => language;

const own = () => words[language];

// "{broker} becomes leader" with the fields put in. A field may be missing: then it leaves no trace.
export function filled(template, fields) {
  const said = template.replace(/\{(\w+)\}/g, (_, name) => fields[name] ?? "");
  // Chinese punctuation has its own room: a template has a space there for fields that end with a letter.
  return language === "zh" ? said.replace(/([，。；：、（）]) +| +(?=[，。；：、（）])/g, "$1") : said;
}

// A word of the interface.
export function t(key, fields = {}) {
  const found = own().ui[key] ?? words.en.ui[key];
  return found === undefined ? key : filled(found, fields);
}

// Why something cannot be played. The simulator speaks English: what it says of a text has few forms, and each is
// put into the reader's language. What is not known stays as it is.
export function failureWords(reason) {
  if (reason === "server-gone") return t("serverGone");
  if (reason === "not-in-this-file") return t("notInThisFile");
  if (reason === "no-such-scenario") return t("noSuchScenario");
  if (reason === "no-python") return t("noPython");
  return (own().errors ?? []).reduce((said, [form, put]) => said.replace(new RegExp(form), put), reason);
}

// A text of the catalogue: a title, a lead, a comment. What is not translated stays as it is.
export function translated(english) {
  return language === "en" ? english : own().texts[english] ?? english;
}

// The passages of a comment. Each is a text of its own.
export const passages = (comment) => comment.map(translated).join(language === "zh" ? "" : " ");

// ---------------------------------------------------------------- what happened

// A phrase, which is a key and fields; a field may be a phrase of its own.
export function say({ key, fields = {} }) {
  const said = Object.entries(fields).map(([name, value]) => [name, typeof value === "object" ? say(value) : value]);
  return filled(own().phrases[key], Object.fromEntries(said));
}

export function eventWords(event) {
  const said = eventAlone(event);
  return event.place ? filled(own().phrases.placed, { tp: event.place, said }) : said;
}

function eventAlone(event) {
  // English calls brokers by their number alone, which is odd at the beginning of a sentence.
  const first = event.key === "Followed" ? "BecameFollower" : event.key;
  if (!own().phrases[first].startsWith("{broker}")) return say(event);
  const said = say({ key: "spoken", fields: { said: event } });
  return said[0].toUpperCase() + said.slice(1);
}

// A state of the controller's machines.
export const phaseWords = (kind, phase) => own().phrases[`${kind}.${phase.toUpperCase()}`];

export const remarkWords = (remarks) => remarks.map(remarkSaid).join(t("semicolon"));

function remarkSaid({ key, fields = {} }) {
  // What was waited for is a command: in English it is shown as it is written.
  if (language === "en" || !fields.condition) return say({ key, fields });
  return say({ key, fields: { ...fields, condition: conditionWords(fields.condition.split(" ")) } });
}

// ---------------------------------------------------------------- messages

export function messageWords(message) {
  const templates = own().messages;
  const error = message.error ? "error" : "";
  const empty = message.values === "" ? "Empty" : "";
  const template = (error && templates.error) || templates[message.kind + empty] || templates[message.kind] || message.kind;
  return filled(template, message);
}

export const channelWords = (channel) => own().channels[channel] ?? channel;

// ---------------------------------------------------------------- commands

// `rules` are the generations that are shown: a wait may be expected to time out under some.
export function commandWords(command, rules) {
  if (!command) return t("start");
  const [verb, ...rest] = command.split(" ");
  const verbs = own().verbs;
  if (verb === "wait") return filled(verbs.wait, { condition: conditionWords(rest, rules) });
  if (verb === "produce" || verb === "send") return sendWords(verb, rest);
  if (verb === "delete") return filled(verbs.delete, { path: rest[0] });
  if (verb === "cut" || verb === "heal" || verb === "delay") return placesWords(verb, rest);
  if ((verb === "hold" || verb === "release") && rest[0] === "all") return verbs[`${verb}-all`];
  if (["hold", "release", "deliver", "drop"].includes(verb)) return filled(verbs[verb], { channel: channelPhrase(rest) });
  if (verb === "configure") return filled(verbs.configure, { topic: rest[0], settings: rest.slice(1).join(" ") });
  if (verb === "reassign") return filled(verbs[rest[1] === "cancel" ? "reassign-cancel" : verb], { topic: rest[0], settings: rest[1] });
  if (verb === "create-topic" || verb === "delete-topic") return filled(verbs[verb], { topic: rest[0], settings: rest[1] });
  if (verb === "advance") return filled(verbs.advance, { duration: durationWords(rest[0]) });
  if (verb === "reset") return filled(verbs.reset, { a: rest[0], b: rest[1] });
  const many = rest.length > 1 && verbs[`${verb}-many`] ? `${verb}-many` : verb;
  return filled(verbs[many] ?? command, { list: listed(rest), client: rest[0], zone: rest[0] });
}

// "a, b and c"
const listed = (items) => (items.length < 2 ? items.join("") : `${items.slice(0, -1).join(t("comma"))}${t("and")}${items.at(-1)}`);

function sendWords(verb, [sender, ...values]) {
  const [client, broker] = sender.split("->");
  return filled(own().verbs[broker === undefined ? verb : `${verb}-to`], { client, broker, values: listed(values) });
}

function placesWords(verb, rest) {
  const verbs = own().verbs;
  if (!rest.length) return verbs["heal-all"];
  const oneWay = rest[1] === "->";
  const [left, right, duration] = oneWay ? [rest[0], rest[2], rest[3]] : [rest[0], rest[1], rest[2]];
  const name = (places) => listed(places.split(","));
  const fields = { left: name(left), right: name(right), duration: durationWords(duration ?? "") };
  return filled(verbs[oneWay ? `${verb}-one-way` : verb], fields);
}

function channelPhrase([channel, ends = ""]) {
  const [from, to] = ends.split("->");
  return filled(own().verbs.channel, { channel: channelWords(channel), from: nodeWords(from), to: nodeWords(to) });
}

export function nodeWords(node) {
  if (/^(broker-)?\d+$/.test(String(node))) return t("brokerN", { n: String(node).replace("broker-", "") });
  if (node === "keeper" || node === "admin") return t(node);
  return String(node);
}

// "10s" as people say it.
function durationWords(duration) {
  const [, amount, unit] = /^(\d+)(ms|s|m)$/.exec(duration) ?? [];
  return amount ? t(amount === "1" ? `one_${unit}` : `many_${unit}`, { n: amount }) : duration;
}

function conditionWords(words, rules = []) {
  const expected = words.indexOf("times-out");
  if (expected < 0) return conditionAlone(words);
  const named = words[expected + 1].split(",");
  const shown = named.includes("all") ? rules : rules.filter((generation) => named.includes(generation));
  if (!shown.length) return conditionAlone(words.slice(0, expected));
  const generations = listed([...new Set(shown)]);
  return conditionAlone(words.slice(0, expected)) + filled(own().conditions["times-out"], { generations });
}

function conditionAlone(parts) {
  const within = parts.indexOf("within");
  const condition = within < 0 ? parts : parts.slice(0, within);
  const [name, a, b] = condition;
  const conditions = own().conditions;
  let said;
  if (name === "in-flight") said = filled(conditions[name], { channel: channelPhrase(condition.slice(1)) });
  else if (name === "leader" && a === "none") said = conditions["leader-none"];
  else said = filled(conditions[name] ?? condition.join(" "), { a: name === "isr" ? listed(a.split(",")) : a, b });
  return within < 0 ? said : said + filled(conditions.within, { duration: durationWords(parts[within + 1]) });
}

// ---------------------------------------------------------------- the rule that fired

// The rule behind the most telling event of a step: {title, text, source}, or null.
export function ruleOf(step) {
  return step.rule ? { source: "", ...words.en.rules[step.rule], ...own().rules[step.rule] } : null;
}

// ---------------------------------------------------------------- terms

// A text in which the first mention of each term can be asked for its meaning.
export function withTerms(sentence, seen = new Set()) {
  const glossary = own().glossary;
  const pattern = new RegExp(glossary.map((entry) => `(${entry.words})`).join("|"), "g");
  const parts = [];
  let from = 0;
  for (const found of sentence.matchAll(pattern)) {
    const entry = glossary[found.slice(1).findIndex((caught) => caught !== undefined)];
    if (seen.has(entry.term)) continue;
    seen.add(entry.term);
    parts.push(sentence.slice(from, found.index), termButton(found[0], entry));
    from = found.index + found[0].length;
  }
  parts.push(sentence.slice(from));
  return parts;
}

function termButton(shown, entry) {
  const { term, meaning } = entry;
  const data = { "data-term": term, "data-meaning": meaning, "aria-label": `${shown}: ${meaning}` };
  return h("span", { class: "term", role: "button", tabindex: 0, ...data }, shown);
}

export const glossary = () => own().glossary;
