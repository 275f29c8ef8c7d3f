// Where plays come from: the server's simulator, or the recordings inside an exported file.

import { inflate } from "lab/links.js";

export class CannotPlay extends Error {}

const recordings = document.getElementById("recordings");

export const source = recordings ? exported(recordings.textContent.trim()) : served();

function served() {
  async function ask(path, options) {
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new CannotPlay("server-gone");
    }
    const answer = await response.json().catch(() => null);
    if (answer?.error) throw new CannotPlay(answer.error);
    if (!response.ok || answer === null) throw new CannotPlay(`${response.status} ${response.statusText}`);
    return answer;
  }
  return {
    live: true,
    shelf: () => ask("/api/catalogue"),
    words: () => ask("/api/words"),
    text: async (name) => (await ask(`/api/scenario/${encodeURIComponent(name)}`)).text,
    play: ({ text, generation, against }) =>
      ask("/api/play", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text, generation, against }),
      }),
  };
}

function exported(data) {
  const contents = inflate(data).then(JSON.parse);
  const texts = new Map();
  return {
    live: false,
    shelf: async () => (await contents).shelf,
    words: async () => (await contents).words,
    // The text of a recording is its head and its steps: enough to share and to save.
    text: async (name) => {
      const { plays, generations } = await contents;
      const found = plays[`${name}/${generations[0]}`];
      if (!found) throw new CannotPlay("not-in-this-file");
      const lines = [...found.head.map((line) => line.replace(/ generation=\S+/, "")), ""];
      for (const step of found.steps.slice(1)) {
        if (step.source) lines.push("", ...step.source);
        lines.push(step.command);
      }
      const text = `${lines.join("\n")}\n`;
      texts.set(text, name);
      return text;
    },
    play: async ({ text, generation, against }) => {
      const { plays, parts, generations } = await contents;
      const name = texts.get(text) ?? /^scenario\s+(\S+)/m.exec(text)?.[1];
      const recording = plays[`${name}/${generation ?? generations.at(-1)}`];
      if (!recording || !texts.has(text)) throw new CannotPlay("not-in-this-file");
      if (!against) return { recording };
      const other = plays[`${name}/${against}`];
      if (!other) throw new CannotPlay("not-in-this-file");
      return { recording, against: other, parts_at: parts[name] };
    },
    generations: async () => (await contents).generations,
  };
}
