// Where plays come from: a server's simulator, recordings, or Python in this very browser (a site, a file).
//
// With recordings the first picture needs no simulator. What they do not hold is played by Python, where the page
// brings one.

import { inflated, inflate } from "lab/links.js";
import { askPython, hasPython, startPython } from "lab/python.js";

export class CannotPlay extends Error {}

const recordings = document.getElementById("recordings");

export const source = recordings ? recorded(recordings) : served();

function served() {
  async function request(path, options) {
    try {
      return await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new CannotPlay("server-gone");
    }
  }
  async function ask(path, options) {
    const response = await request(path, options);
    const answer = await response.json().catch(() => null);
    if (answer?.error) throw new CannotPlay(answer.error);
    if (!response.ok || answer === null) throw new CannotPlay(`${response.status} ${response.statusText}`);
    return answer;
  }
  const posted = (asked) => ({
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(asked),
  });
  // A line for each reply, until there is nothing more to say or the reader stops it.
  const long = (path) => async (wanted, onReply, signal) => {
    const response = await request(path, { ...posted(wanted), signal });
    if (!response.ok) throw new CannotPlay((await response.json().catch(() => null))?.error ?? response.statusText);
    const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await lines.read();
      if (done) return;
      const pieces = (rest + value).split("\n");
      rest = pieces.pop();
      for (const piece of pieces) take(JSON.parse(piece), onReply);
    }
  };
  return {
    live: true,
    shelf: () => ask("api/catalogue"),
    words: () => ask("api/words"),
    text: async (name) => (await ask(`api/scenario/${encodeURIComponent(name)}`)).text,
    play: ({ text, generation, against }) => ask("api/play", posted({ text, generation, against })),
    explore: long("api/explore"),
    futures: long("api/futures"),
  };
}

// An exported file has its recordings in it, a site beside it.
async function contentsOf(element) {
  const { src } = element.dataset;
  if (!src) return JSON.parse(await inflate(element.textContent.trim()));
  const response = await fetch(src);
  if (!response.ok) throw new CannotPlay("server-gone");
  return JSON.parse(new TextDecoder().decode(await inflated(await response.arrayBuffer())));
}

function recorded(element) {
  const contents = contentsOf(element);
  const names = new Map();

  // What was recorded of an unchanged story. Two recordings part at the same step in whatever order.
  async function found({ text, generation, against }) {
    const { plays, parts, rules } = await contents;
    const name = names.get(text);
    const under = generation ?? rules[name];
    const recording = plays[`${name}/${under}`];
    if (!recording || !against) return recording && { recording };
    const other = plays[`${name}/${against}`];
    const parting = parts[`${name}/${under}/${against}`] ?? parts[`${name}/${against}/${under}`] ?? null;
    return other && { recording, against: other, parts_at: parting };
  }

  async function played({ text, generation, against }) {
    const answer = await asked({ ask: "play", text, generation, against });
    if (answer.error) throw new CannotPlay(answer.error);
    return answer;
  }

  const long = (ask) => async (wanted, onReply, signal) => {
    const last = await asked({ ...wanted, ask }, (reply) => reply.error || onReply(reply), signal);
    if (last?.error) throw new CannotPlay(last.error);
  };

  return {
    live: hasPython,
    shelf: async () => (await contents).shelf,
    words: async () => (await contents).words,
    text: async (name) => {
      const text = (await contents).texts[name];
      if (text === undefined) throw new CannotPlay(hasPython ? "no-such-scenario" : "not-in-this-file");
      names.set(text, name);
      return text;
    },
    play: async (wanted) => {
      const answer = await found(wanted);
      if (answer) return answer;
      if (!hasPython) throw new CannotPlay("not-in-this-file");
      return played(wanted);
    },
    explore: long("explore"),
    futures: long("futures"),
    generations: hasPython ? null : async () => (await contents).generations,
    // The picture comes first: Python is loaded when there is one.
    opened: startPython,
  };
}

function take(reply, onReply) {
  if (reply.error) throw new CannotPlay(reply.error);
  onReply(reply);
}

async function asked(question, onReply, signal) {
  try {
    return await askPython(question, onReply, signal);
  } catch {
    throw new CannotPlay("no-python");
  }
}
