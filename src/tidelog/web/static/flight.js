// Messages: those that wait on their links, and those that run along them.

import { s, widthOf } from "lab/dom.js";
import { messageWords, nodeWords, t } from "lab/words.js";

const ON_ONE_LINK_MAX = 4;
const MOVING_MAX = 12;
const WAITING_LETTERS_MAX = 22;
const MOVING_LETTERS_MAX = 30;
const LABEL_PADDING = 14;

const shortened = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);

// A label for each message that waits, where it waits. `route(message)` is the path of its link, or null.
export function waitingMessages(flight, layout, route) {
  const onLink = new Map();
  const taken = [];
  const found = [];
  for (const message of flight) {
    const key = `${message.from}>${message.to}`;
    const count = onLink.get(key) ?? 0;
    onLink.set(key, count + 1);
    const point = count < ON_ONE_LINK_MAX && placeOf(message, layout, route, count);
    if (!point) continue;
    const words = messageWords(message);
    const short = shortened(words, WAITING_LETTERS_MAX);
    const width = layout.narrow || count > 0 ? 16 : widthOf(short) + LABEL_PADDING;
    found.push({ message, group: label(message, words, short, width, free(inside(point, width, layout), width, taken)) });
  }
  return found;
}

// In the middle of its link, the next ones behind it; what a broker sends to itself is beside it.
function placeOf(message, layout, route, count) {
  if (message.from === message.to) {
    const place = layout.places.get(String(message.from));
    return place && { x: place.x - layout.radius - (layout.narrow ? 14 : 70), y: place.y + 26 };
  }
  const path = route(message);
  return path && path.getPointAtLength(path.getTotalLength() * (0.5 - count * 0.12));
}

// No label begins or ends outside of the picture, and none covers a broker.
function inside({ x, y }, width, layout) {
  const brokers = layout.broker - layout.radius - 8;
  const end = (x < brokers ? brokers : layout.width - 3) - width / 2;
  return { x: Math.max(Math.min(x, end), width / 2 + 3), y };
}

// The nearest place above or below that nothing else has taken.
function free({ x, y }, width, taken) {
  const overlaps = (other, at) => Math.abs(other.y - at) < 21 && Math.abs(other.x - x) < (other.width + width) / 2 + 2;
  const isFree = (at) => !taken.some((other) => overlaps(other, at));
  const found = [0, 22, -22, 44, -44].map((by) => y + by).find(isFree) ?? y;
  taken.push({ x, y: found, width });
  return { x, y: found };
}

function label(message, words, short, width, { x, y }) {
  const ends = t("from", { from: nodeWords(message.from), to: nodeWords(message.to) });
  const said = `${t("inFlight")}: ${words}, ${ends}`;
  return s("g", { class: "waiting", tabindex: 0, role: "button", transform: `translate(${x} ${y})`, "aria-label": said },
    s("rect", { x: -width / 2, y: -10, width, height: 20, rx: 10 }),
    width > 16 ? s("text", { "text-anchor": "middle", dy: "0.34em" }, short) : s("circle", { r: 3.5 }));
}

// A dot for each message that arrives, and the path it takes. What stays at home does not move.
export function movingMessages(messages, layout, route) {
  const found = [];
  for (const message of messages.slice(0, MOVING_MAX)) {
    const path = message.from === message.to ? null : route(message);
    if (!path) continue;
    const words = layout.narrow ? "" : shortened(messageWords(message), MOVING_LETTERS_MAX);
    const dot = s("g", { class: `dot ${message.channel}` }, s("circle", { r: 6 }), s("text", { x: 10, y: -8 }, words));
    found.push({ dot, path, length: path.getTotalLength() });
  }
  return found;
}

// Let them all run at once, in so much time.
export function run(moving, layer, duration, stop) {
  if (!moving.length) return Promise.resolve();
  layer.append(...moving.map(({ dot }) => dot));
  return new Promise((resolve) => {
    const began = performance.now();
    const frame = (now) => {
      const done = stop() ? 1 : Math.min(Math.max(now - began, 0) / duration, 1);
      const eased = done * done * (3 - 2 * done);
      for (const { dot, path, length } of moving) {
        const { x, y } = path.getPointAtLength(length * eased);
        dot.setAttribute("transform", `translate(${x} ${y})`);
      }
      if (done < 1) {
        requestAnimationFrame(frame);
        return;
      }
      for (const { dot } of moving) dot.remove();
      resolve();
    };
    requestAnimationFrame(frame);
  });
}
