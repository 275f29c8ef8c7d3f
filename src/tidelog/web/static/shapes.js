// What zones, brokers, keeper members and clients look like. What state they are in is a matter of classes.

import { s, widthOf } from "lab/dom.js";
import { t } from "lab/words.js";

const CROWN = "M -11 4 L -13 -7 L -6 -2 L 0 -9 L 6 -2 L 13 -7 L 11 4 Z";
const HEXAGON = "M -13 0 L -6.5 -11 H 6.5 L 13 0 L 6.5 11 H -6.5 Z";
const CROSS = "M -3.5 -3.5 L 3.5 3.5 M 3.5 -3.5 L -3.5 3.5";
const BARS = "M -2.5 -3.5 V 3.5 M 2.5 -3.5 V 3.5";
// The room above a zone in which its name has a line of its own.
const LABEL = 18;

const thing = (kind, attributes, ...children) => s("g", { class: kind, tabindex: 0, role: "button", ...attributes }, children);

// Where the picture is small, clients are where the name would be: then it is on the right, with the state before it.
export function zoneShape({ name, y, height }, { width, narrow, label }) {
  const isSmall = narrow || label < LABEL;
  const end = width - 14;
  const base = y + (isSmall ? 15 : 20);
  const state = s("text", { class: "zone-state", x: isSmall ? end - widthOf(name) - 6 : end, y: base, "text-anchor": "end" });
  const group = thing("zone", { "aria-label": t("zone", { zone: name }) },
    s("rect", { x: 1, y: y + 1, width: width - 2, height: height - 2, rx: 14 }),
    s("text", { class: "zone-name", x: isSmall ? end : 12, y: base, "text-anchor": isSmall ? "end" : "start" }, name),
    state);
  return { group, state };
}

export function brokerShape(id, { radius }) {
  const role = s("text", { class: "role", "text-anchor": "middle", y: radius + 17 });
  const hint = s("title");
  const crownHint = s("title");
  const group = thing("broker", {}, hint,
    s("circle", { class: "ring", r: radius + 5 }),
    s("circle", { class: "body", r: radius }),
    s("text", { class: "broker-id", "text-anchor": "middle", dy: "0.36em" }, String(id)),
    s("path", { class: "crown", d: CROWN, transform: `translate(0 ${-radius - 8})` }, crownHint),
    role,
    badge("cross", radius, CROSS),
    badge("frost", radius, BARS));
  return { group, role, hint, crownHint };
}

// A small sign at the edge of a node, which leaves its name readable.
function badge(kind, radius, sign) {
  const at = `translate(${radius * 0.86} ${-radius * 0.86}) scale(${radius / 21})`;
  return s("g", { class: `badge-sign ${kind}`, transform: at }, s("circle", { r: 8 }), s("path", { d: sign }));
}

export function keeperShape(name) {
  const short = `k${name.replace("keeper-", "")}`;
  const label = s("text", { "text-anchor": "middle", dy: "0.35em" }, short);
  const hint = s("title");
  return { group: thing("keeper", {}, hint, s("path", { class: "body", d: HEXAGON }), label), hint };
}

// With several topics, a client also says which is its own.
export function clientShape(client, { narrow, left }, severalTopics) {
  const isProducer = client.kind === "producer";
  const width = narrow ? 34 : left > 70 ? 84 : 80;
  const does = isProducer ? `acks=${client.acks}` : t("reads");
  const about = severalTopics ? `${does} ${client.topic}` : does;
  const said = [client.name, t(client.kind), isProducer && about, client.idempotent && t("idempotent")].filter(Boolean);
  const group = thing(`client ${client.kind}`, { "aria-label": said.join(", ") },
    s("rect", { class: "body", x: -width / 2, y: -16, width, height: 32, rx: isProducer ? 8 : 16 }),
    s("text", { class: "client-name", "text-anchor": "middle", y: narrow ? 5 : -2 }, client.name),
    !narrow && s("text", { class: "client-about", "text-anchor": "middle", y: 11 }, client.idempotent ? `${about} id` : about));
  return { group };
}
