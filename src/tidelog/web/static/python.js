// The page's side of Python in a worker: begins to load it, says how far that is, and asks it.

import { $ } from "lab/dom.js";

const element = $("#python");

// Whether this page brings a Python of its own: a site does, and an exported file may.
export const hasPython = Boolean(element);

// {phase: "none" | "loading" | "ready" | "failed", share, why}
export const state = { phase: element ? "loading" : "none", share: 0, why: "" };

const asked = new Map();
const watchers = new Set();
let worker = null;
let number = 0;
let settle;
const ready = new Promise((resolve) => (settle = resolve));

// Called now and whenever the state changes.
export function watchPython(look) {
  watchers.add(look);
  look(state);
}

function become(changed) {
  Object.assign(state, changed);
  for (const look of watchers) look(state);
}

// Addresses are relative to the page; a file holds everything in addresses of data.
export function startPython() {
  if (!element || worker) return;
  const files = JSON.parse(element.textContent);
  for (const file of Object.values(files)) file.url = new URL(file.url, document.baseURI).href;
  try {
    worker = new Worker(import.meta.resolve("lab/worker.js"));
  } catch (error) {
    fail(error.message);
    return;
  }
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = (event) => fail(event.message || "worker");
  worker.postMessage({ start: files });
}

function fail(why) {
  become({ phase: "failed", why });
  settle(false);
}

function hear(data) {
  if ("all" in data) become({ share: data.loaded / data.all });
  else if (data.ready) {
    become({ phase: "ready", version: data.ready });
    settle(true);
  } else if (data.failed) fail(data.failed);
  else {
    const question = asked.get(data.id);
    if (data.reply && question) question.hear(JSON.parse(data.reply));
    if (data.done) {
      asked.delete(data.id);
      question?.end();
    }
  }
}

// Every reply, of which the last is the answer. Rejects if there is no Python.
export async function askPython(question, onReply = () => {}, signal = null) {
  startPython();
  if (!(await ready)) throw new Error(state.why);
  const id = (number += 1);
  let last = null;
  const answered = new Promise((resolve) => {
    asked.set(id, { hear: (reply) => onReply((last = reply)), end: resolve });
  });
  signal?.addEventListener("abort", () => worker.postMessage({ id, stop: true }));
  if (!signal?.aborted) {
    worker.postMessage({ id, question: JSON.stringify(question) });
    await answered;
  }
  return last;
}
