// Links that hold a whole play in the fragment: JSON, deflated, URL-safe base64 (the same as scenario/links.py).

export class BrokenLink extends Error {}

async function through(bytes, stream) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

export const inflated = (bytes) => through(bytes, new DecompressionStream("deflate-raw"));

export async function inflate(base64) {
  const binary = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await inflated(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

export async function deflate(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// A whole play.
async function held(parts) {
  try {
    const { text, generation = null, against = null, step, view } = JSON.parse(await inflate(parts.join("/")));
    if (typeof text !== "string") throw new Error("no text");
    return { text, generation, against, step: Number(step) || 0, showsTime: view === "time" };
  } catch {
    throw new BrokenLink();
  }
}

// What the address asks for: {page: "shelf" | "make" | "explore" | "scenario" | "play", …}
export async function readLink(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split("?");
  const [kind, ...rest] = path.split("/");
  const asked = new URLSearchParams(query);
  if (kind === "s") {
    const step = Number.parseInt(asked.get("step") ?? "0", 10);
    return {
      page: "scenario",
      name: decodeURIComponent(rest.join("/")),
      generation: asked.get("g"),
      against: asked.get("vs"),
      step: Number.isFinite(step) ? step : 0,
      showsTime: asked.get("view") === "time",
    };
  }
  if (kind === "p") return { page: "play", ...(await held(rest)) };
  if (kind === "explore") return { page: "explore", story: rest.length ? await held(rest) : null };
  if (kind === "make") return { page: "make" };
  if (kind === "") return { page: "shelf" };
  throw new BrokenLink();
}

export function scenarioLink(name, { generation, against, step, showsTime } = {}) {
  const asked = new URLSearchParams();
  if (generation) asked.set("g", generation);
  if (against) asked.set("vs", against);
  if (step) asked.set("step", step);
  if (showsTime) asked.set("view", "time");
  const query = asked.toString();
  return `#/s/${encodeURIComponent(name)}${query ? `?${query}` : ""}`;
}

function whole({ text, generation, against, step, showsTime }) {
  const play = { text };
  if (generation) play.generation = generation;
  if (step) play.step = step;
  if (against) play.against = against;
  if (showsTime) play.view = "time";
  return deflate(JSON.stringify(play));
}

export const playLink = async (play) => `#/p/${await whole(play)}`;

// A search that begins where a story is now.
export const exploreLink = async ({ text, generation, step }) => `#/explore/${await whole({ text, generation, step })}`;

// What to give to others: the name, if the story is the catalogue's own, else the whole story.
export async function shareLink(stage) {
  const fragment = stage.name ? scenarioLink(stage.name, stage) : await playLink(stage);
  return location.href.replace(/#.*/, "") + fragment;
}

// The words about such a link. One to a file opens in its copies, at whatever place they are.
export const aboutLink = (stage) => (location.protocol === "file:" ? "shareFile" : stage.name ? "shareNamed" : "shareWhole");
