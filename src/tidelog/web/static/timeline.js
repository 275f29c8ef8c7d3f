// A play as a space-time diagram is laid out here: which column of time each step and each message has, where
// each message was sent, and how long each process was in which state. Nothing is drawn.
//
// A step has a column for each of its beats that brings messages, and one for its end.

const CLIENT_CHANNELS = /^(client|client-reply)$/;
const ADMIN = "admin";

// {columns: [{step, beat, messages, scene}], first: [column of a step's first], last: [of its end]}
export function columnsOf(play) {
  const columns = [{ step: 0, beat: null, messages: [], scene: play.scene(0) }];
  const first = [0], last = [0];
  for (let step = 1; step <= play.last; step += 1) {
    first.push(columns.length);
    const scene = { ...play.scene(step - 1), cuts: play.scene(step).cuts };
    play.beats(step).forEach(({ messages = [], changed = {} }, beat) => {
      Object.assign(scene, changed);
      if (messages.some(({ from, to }) => from !== to)) columns.push({ step, beat, messages, scene: { ...scene } });
    });
    columns.push({ step, beat: null, messages: [], scene: play.scene(step) });
    last.push(columns.length - 1);
  }
  return { columns, first, last };
}

// An administrator who asks for something, clients, brokers, the keeper: from top to bottom.
export function lanesOf({ clients, brokers }, { columns }) {
  const isAsked = columns.some(({ messages }) => messages.some(({ from }) => from === ADMIN));
  return [...(isAsked ? [ADMIN] : []), ...clients.map(({ name }) => name), ...brokers.map(({ id }) => String(id)), "keeper"];
}

// What a lane is during a column: "leading", "up", "paused" or "down".
export function stateOf(lane, scene, topics) {
  const broker = scene[`broker/${lane}`];
  if (!broker) return "up";
  if (broker.process !== "up") return broker.process;
  return topics.some((_, number) => scene[`log/${number}/${lane}`]?.role === "leader") ? "leading" : "up";
}

// [{lane, state, from, to}]: from a column to the next one with another state.
export function statesOf(lanes, { columns }, topics) {
  return lanes.flatMap((lane) => runs(columns, ({ scene }) => stateOf(lane, scene, topics))
    .map(({ value, from, to }) => ({ lane, state: value, from, to })));
}

// [{pair: [a, b], from, to}] for brokers that do not reach each other; `to` is null where that is so to the end.
export function cutsOf({ columns }) {
  const known = new Set(columns.flatMap(({ scene }) => scene.cuts.map((pair) => pairKey(...pair))).filter(Boolean));
  return [...known].flatMap((key) => runs(columns, ({ scene }) => scene.cuts.some((pair) => pairKey(...pair) === key))
    .filter(({ value }) => value)
    .map(({ from, to }) => ({ pair: key.split("|"), from, to: to < columns.length ? to : null })));
}

const isNumber = (node) => /^\d+$/.test(String(node));
const pairKey = (a, b) => (isNumber(a) && isNumber(b) ? [a, b].map(Number).sort((x, y) => x - y).join("|") : "");

// [{message, from, to, step, beat}]: columns in which it was sent and arrived. One that waited over the end of
// steps was sent before; any other in the column before. `to` is null if it never arrives, `isDropped` if a command
// took it away.
export function messagesOf(play, { columns, last }) {
  const found = [];
  columns.forEach(({ step, beat, messages }, column) => {
    for (const message of messages) {
      if (message.from === message.to) continue;
      const sent = waitsSince(play, message, step - 1);
      found.push({ message, from: sent === null ? column - 1 : last[sent], to: column, step, beat });
    }
  });
  for (let step = 1; step <= play.last; step += 1) {
    if (play.step(step).command.startsWith("drop ")) found.push(...droppedIn(play, step, last));
  }
  for (const message of play.scene(play.last).flight) {
    const sent = waitsSince(play, message, play.last);
    if (message.from !== message.to && sent !== null) found.push({ message, from: last[sent], to: null, step: sent, beat: null });
  }
  return found;
}

// Since the end of which step a message has been on its way without a break, up to the end of `step`.
function waitsSince(play, message, step) {
  const key = JSON.stringify(message);
  let since = null;
  for (let at = step; at >= 0; at -= 1) {
    if (!play.scene(at).flight.some((other) => JSON.stringify(other) === key)) break;
    since = at;
  }
  return since;
}

function droppedIn(play, step, last) {
  const [, channel, ends = ""] = play.step(step).command.split(" ");
  const [from, to] = ends.split("->");
  const message = play.scene(step - 1).flight.find((one) => one.channel === channel && String(one.from) === from && String(one.to) === to);
  if (!message) return [];
  return [{ message, from: last[waitsSince(play, message, step - 1)], to: last[step], step, beat: null, isDropped: true }];
}

// Events that belong on a lane, at the end of their step.
export function signsOf(play, { last }) {
  const found = [];
  for (let step = 1; step <= play.last; step += 1) {
    for (const { key, fields = {} } of play.step(step).events ?? []) {
      if (key === "Truncated") found.push({ lane: String(fields.broker), kind: "truncated", sign: "✂", column: last[step], step });
      else if (key === "BecameLeader") found.push({ lane: String(fields.broker), kind: "leads", sign: "★", column: last[step], step });
      else if (key === "Acknowledged") found.push({ lane: fields.producer, kind: "ok", sign: "✓", column: last[step], step });
      else if (key === "SendFailed") found.push({ lane: fields.producer, kind: "failed", sign: "✗", column: last[step], step });
    }
  }
  return found;
}

export const isOfClient = ({ channel }) => CLIENT_CHANNELS.test(channel);

// Neighbours with the same value as one: [{value, from, to}], `to` not included.
function runs(items, valueOf) {
  const found = [];
  items.forEach((item, index) => {
    const value = valueOf(item);
    const former = found.at(-1);
    if (former?.value === value) former.to = index + 1;
    else found.push({ value, from: index, to: index + 1 });
  });
  return found;
}
