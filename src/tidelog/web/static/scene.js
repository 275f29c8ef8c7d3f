// The picture: zones, nodes, links, logs, messages. It is made once and then changed where the scene changed.
//
// Nothing here knows about time; `draw` shows a scene, `travel` lets messages run along their links.

import { calm, s, set, text } from "lab/dom.js";
import { layoutOf, linkPath } from "lab/layout.js";
import { LogRow } from "lab/logrow.js";
import { messageWords, t } from "lab/words.js";

export class SceneView {
  // `onPick({kind, …}, element)` is called when somebody chooses something in the picture.
  constructor(play, { onPick, longest }) {
    this.play = play;
    this.cast = play.cast;
    this.onPick = onPick;
    this.longest = longest;
    this.svg = s("svg", { class: "scene", role: "group", "aria-label": t("sceneLabel") });
    this.layers = {};
    for (const name of ["zones", "links", "nodes", "logs", "flight", "moving"]) {
      this.layers[name] = s("g", { class: name });
      this.svg.append(this.layers[name]);
    }
    this.showsDisk = play.recording.steps.some(({ command }) => /^(sync|power-off)/.test(command));
    this.width = 0;
  }

  // Lay out for a width. Everything is made anew; `draw` must follow.
  resize(width) {
    if (width === this.width) return false;
    this.width = width;
    const layout = (this.layout = layoutOf(this.cast, width, this.longest));
    set(this.svg, "viewBox", `0 0 ${layout.width} ${layout.height}`);
    set(this.svg, "width", layout.width);
    set(this.svg, "height", layout.height);
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    this.#makeZones();
    this.links = new Map();
    this.nodes = new Map();
    for (const { from, to } of usedLinks(this.play)) this.#link(from, to);
    for (const client of this.cast.clients) this.#makeClient(client);
    for (const keeper of this.cast.keepers) this.#makeKeeper(keeper);
    for (const broker of this.cast.brokers) this.#makeBroker(broker);
    this.rows = new Map();
    for (const [key, place] of layout.rows) {
      const topic = this.cast.topics.length > 1 ? this.cast.topics[Number(key.split("/")[0])].name : "";
      const row = new LogRow(key, place, layout, { showsDisk: this.showsDisk, topic });
      this.rows.set(key, row);
      this.layers.logs.append(row.element);
    }
    this.shown = {};
    return true;
  }

  // ------------------------------------------------------------ making

  #makeZones() {
    this.zones = new Map();
    for (const { name, y, height } of this.layout.zones) {
      const label = s("text", { class: "zone-name", x: 12, y: y + 20 }, name);
      const state = s("text", { class: "zone-state", x: this.layout.width - 14, y: y + 20, "text-anchor": "end" });
      const group = s("g", { class: "zone", tabindex: 0, role: "button", "aria-label": t("zone", { zone: name }) },
        s("rect", { x: 1, y: y + 1, width: this.layout.width - 2, height: height - 2, rx: 14 }), label, state);
      this.#pickable(group, { kind: "zone", zone: name });
      this.zones.set(name, { group, state });
      this.layers.zones.append(group);
    }
  }

  #makeBroker({ id }) {
    const { x, y } = this.layout.places.get(String(id));
    const r = this.layout.radius;
    const parts = {
      ring: s("circle", { class: "ring", r: r + 5 }),
      body: s("circle", { class: "body", r }),
      name: s("text", { class: "broker-id", "text-anchor": "middle", dy: "0.36em" }, String(id)),
      crown: s("path", { class: "crown", d: "M -11 4 L -13 -7 L -6 -2 L 0 -9 L 6 -2 L 13 -7 L 11 4 Z", transform: `translate(0 ${-r - 8})` }),
      cross: badge("cross", r, "M -3.5 -3.5 L 3.5 3.5 M 3.5 -3.5 L -3.5 3.5"),
      role: s("text", { class: "role", "text-anchor": "middle", y: r + 19 }),
      frost: badge("frost", r, "M -2.5 -3.5 V 3.5 M 2.5 -3.5 V 3.5"),
    };
    const group = s("g", { class: "broker", tabindex: 0, role: "button", transform: `translate(${x} ${y})` }, Object.values(parts));
    this.#pickable(group, { kind: "broker", id });
    if (!this.cast.topics.some(({ replicas }) => replicas.includes(id))) {
      this.layers.logs.append(s("text", { class: "no-replica", x: this.layout.log, y, dy: "0.35em" }, t("noReplica")));
    }
    this.nodes.set(String(id), { group, ...parts });
    this.layers.nodes.append(group);
  }

  #makeKeeper({ name }) {
    const { x, y } = this.layout.places.get(name);
    const number = name.replace("keeper-", "");
    const group = s("g", { class: "keeper", tabindex: 0, role: "button", transform: `translate(${x} ${y})` },
      s("path", { class: "body", d: "M -13 0 L -6.5 -11 H 6.5 L 13 0 L 6.5 11 H -6.5 Z" }),
      s("text", { "text-anchor": "middle", dy: "0.35em" }, `k${number}`));
    this.#pickable(group, { kind: "keeper", name, number });
    this.nodes.set(name, { group });
    this.layers.nodes.append(group);
  }

  #makeClient(client) {
    const { x, y } = this.layout.places.get(client.name);
    const narrow = this.layout.narrow;
    const width = narrow ? 34 : this.layout.left > 70 ? 84 : 80;
    const about = client.kind === "producer" ? `acks=${client.acks}` : t("reads");
    const label = [client.name, t(client.kind), client.kind === "producer" ? about : "", client.idempotent ? t("idempotent") : ""].filter(Boolean).join(", ");
    const group = s("g", { class: `client ${client.kind}`, tabindex: 0, role: "button", "aria-label": label, transform: `translate(${x} ${y})` },
      s("rect", { class: "body", x: -width / 2, y: -16, width, height: 32, rx: client.kind === "producer" ? 8 : 16 }),
      s("text", { class: "client-name", "text-anchor": "middle", y: narrow ? 5 : -2 }, client.name),
      narrow ? null : s("text", { class: "client-about", "text-anchor": "middle", y: 11 }, client.idempotent ? `${about} id` : about));
    this.#pickable(group, { kind: "client", client });
    this.nodes.set(client.name, { group });
    this.layers.nodes.append(group);
  }

  #pickable(element, what) {
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      this.onPick(what, element);
    });
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        this.onPick(what, element);
      }
    });
  }

  #link(from, to) {
    const [a, b] = ordered(from, to);
    const key = `${a}|${b}`;
    let link = this.links.get(key);
    if (!link) {
      const path = linkPath(this.layout, a, b);
      if (!path) return null;
      const line = s("path", { class: "line", d: path });
      const mark = s("g", { class: "mark" }, s("circle", { r: 8 }), s("path", { d: "M -4 -4 L 4 4 M 4 -4 L -4 4" }));
      const group = s("g", { class: "link", role: "button", tabindex: -1 }, s("path", { class: "touch", d: path }), line, mark);
      this.#pickable(group, { kind: "link", a, b });
      link = { group, line, mark, a, b };
      this.links.set(key, link);
      this.layers.links.append(group);
    }
    return link;
  }

  // ------------------------------------------------------------ drawing

  // `before` is the scene that the step began with: what was truncated since is shown once more.
  draw(scene, { before = null, moved = false } = {}) {
    const changed = (key) => this.shown[key] !== scene[key];
    const topics = this.cast.topics;
    if (this.cast.brokers.some(({ id }) => changed(`broker/${id}`)) || changed("part/0") || changed("now") || topics[0].replicas.some((broker) => changed(`log/0/${broker}`))) {
      for (const { id } of this.cast.brokers) this.#drawBroker(id, scene);
    }
    for (const { name } of this.cast.keepers) if (changed(`keeper/${name}`)) this.#drawKeeper(name, scene[`keeper/${name}`]);
    if (changed("cuts") || changed("held")) this.#drawLinks(scene);
    topics.forEach((topic, number) => {
      const anyLog = topic.replicas.some((broker) => changed(`log/${number}/${broker}`) || changed(`broker/${broker}`));
      if (!anyLog && !changed(`part/${number}`) && this.before === before) return;
      const differing = differences(scene, number, topic.replicas);
      for (const broker of topic.replicas) {
        const row = this.rows.get(`${number}/${broker}`);
        const log = scene[`log/${number}/${broker}`];
        row.draw(log, {
          former: before?.[`log/${number}/${broker}`] ?? null,
          broker: scene[`broker/${broker}`],
          part: scene[`part/${number}`],
          id: broker,
          differing,
          moved,
        });
      }
    });
    if (changed("flight") || changed("held")) this.#drawFlight(scene);
    this.shown = scene;
    this.before = before;
  }

  #drawBroker(id, scene) {
    const node = this.nodes.get(String(id));
    const broker = scene[`broker/${id}`];
    const part = scene["part/0"];
    const isReplica = this.cast.topics[0].replicas.includes(id);
    const log = isReplica ? scene[`log/0/${id}`] : null;
    const inIsr = part.isr.includes(id);
    const official = scene.now.controller === id;
    const stale = broker.controls && !official;
    const state = ["broker", broker.process];
    if (inIsr) state.push("in-isr");
    if (official) state.push("official");
    if (stale) state.push("stale");
    if (log?.role === "leader" && broker.process !== "down") state.push("leading");
    if (!broker.registered && broker.process !== "down") state.push("unregistered");
    set(node.group, "class", state.join(" "));
    text(node.role, broker.process !== "up" ? t(broker.process) : log && log.role !== "-" ? t(log.role) : "");
    const said = [t("brokerN", { n: id }), t(broker.process)];
    if (log && broker.process !== "down") said.push(log.role === "-" ? t("noRole") : t(log.role));
    if (isReplica) said.push(t(inIsr ? "inIsr" : "notInIsr"));
    if (official) said.push(t("controller"));
    if (stale) said.push(t("staleController"));
    set(node.group, "aria-label", said.join(", "));
  }

  #drawKeeper(name, keeper) {
    const { group } = this.nodes.get(name);
    set(group, "class", ["keeper", keeper.running ? "" : "stopped", keeper.serving ? "" : "mute", keeper.leads ? "leads" : ""].filter(Boolean).join(" "));
    const state = !keeper.running ? "stopped" : keeper.serving ? "serving" : "notServing";
    set(group, "aria-label", `${t("keeperN", { n: name.replace("keeper-", "") })}, ${t(state)}${keeper.leads ? `, ${t("leads")}` : ""}`);
  }

  #drawLinks(scene) {
    const cut = new Set(scene.cuts.map(([a, b]) => ordered(a, b).join("|")));
    const held = new Set(scene.held.flatMap((channel) => {
      const ends = channel.split(" ")[1]?.split("->");
      return ends ? [ordered(...ends.map((end) => this.#address(end, scene, ends))).join("|")] : [];
    }));
    for (const key of [...cut, ...held]) {
      const [a, b] = key.split("|");
      // Links that nobody uses need no line, unless one of two brokers: those show where the network ends.
      if (isBroker(a) && isBroker(b) || held.has(key)) this.#link(a, b);
    }
    for (const [key, link] of this.links) {
      const state = cut.has(key) ? "cut" : held.has(key) ? "held" : "";
      set(link.group, "class", `link ${state}`);
      set(link.group, "tabindex", isBroker(link.a) && isBroker(link.b) || state ? 0 : -1);
      set(link.group, "aria-label", `${link.a} ↔ ${link.b}${state ? `, ${t(state === "cut" ? "cutLink" : "heldLink")}` : ""}`);
      if (state === "cut") {
        const middle = link.line.getPointAtLength(link.line.getTotalLength() / 2);
        set(link.mark, "transform", `translate(${middle.x} ${middle.y})`);
      }
    }
    for (const [name, zone] of this.zones) {
      const off = isCutOff(name, scene.cuts, this.cast);
      set(zone.group, "class", off ? "zone off" : "zone");
      text(zone.state, off ? t("cutOff") : "");
    }
  }

  // The keeper is an address: whichever member serves the other end.
  #address(end, scene, ends = []) {
    if (end !== "keeper") return end;
    const other = ends.find((one) => one !== "keeper");
    const zone = this.cast.brokers.find((broker) => String(broker.id) === String(other))?.zone;
    const serving = this.cast.keepers.filter(({ name }) => scene[`keeper/${name}`].serving);
    const near = serving.find((keeper) => keeper.zone === zone) ?? serving[0] ?? this.cast.keepers[0];
    return near.name;
  }

  #pathOf(message, scene) {
    const ends = [message.from, message.to];
    const [from, to] = ends.map((end) => this.#address(end, scene, ends));
    const path = linkPath(this.layout, from, to);
    return path ? s("path", { d: path }) : null;
  }

  // ------------------------------------------------------------ messages

  #drawFlight(scene) {
    this.layers.flight.replaceChildren();
    const onLink = new Map();
    const taken = [];
    for (const message of scene.flight) {
      const key = `${message.from}>${message.to}`;
      const count = onLink.get(key) ?? 0;
      onLink.set(key, count + 1);
      const point = count < 4 && this.#waitingPlace(message, scene, count);
      if (!point) continue;
      const said = messageWords(message);
      const short = said.length > 22 ? `${said.slice(0, 21)}…` : said;
      const width = this.layout.narrow || count > 0 ? 16 : 14 + short.length * 6.3;
      this.layers.flight.append(this.#waiting(message, free(point, width, taken), short, width));
    }
  }

  // In the middle of its link, the next ones behind it; what a broker sends to itself stands beside it.
  #waitingPlace(message, scene, count) {
    if (message.from === message.to) {
      const place = this.layout.places.get(String(message.from));
      return place && { x: place.x - this.layout.radius - (this.layout.narrow ? 14 : 70), y: place.y + 26 };
    }
    const path = this.#pathOf(message, scene);
    return path && path.getPointAtLength(path.getTotalLength() * (0.5 - count * 0.12));
  }

  #waiting(message, { x, y }, short, width) {
    const said = messageWords(message);
    const group = s("g", { class: "waiting", tabindex: 0, role: "button", transform: `translate(${x} ${y})`, "aria-label": `${t("inFlight")}: ${said}, ${t("from", message)}` },
      s("rect", { x: -width / 2, y: -10, width, height: 20, rx: 10 }),
      width > 16 ? s("text", { "text-anchor": "middle", dy: "0.34em" }, short) : s("circle", { r: 3.5 }));
    this.#pickable(group, { kind: "message", message });
    return group;
  }

  // Messages run along their links, all at once. The promise ends when they have arrived, or when `stop` says so.
  travel(messages, scene, duration, stop) {
    if (calm() || duration < 40) return Promise.resolve();
    const moving = [];
    for (const message of messages.slice(0, 12)) {
      const path = message.from === message.to ? null : this.#pathOf(message, scene);
      if (!path) continue;
      const said = messageWords(message);
      const dot = s("g", { class: `dot ${message.channel}` }, s("circle", { r: 6 }), this.layout.narrow ? null : s("text", { x: 10, y: -8 }, said.length > 30 ? `${said.slice(0, 29)}…` : said));
      this.layers.moving.append(dot);
      moving.push({ dot, path, length: path.getTotalLength() });
    }
    if (!moving.length) return Promise.resolve();
    return new Promise((resolve) => {
      const began = performance.now();
      const frame = (now) => {
        const done = stop() ? 1 : Math.min((now - began) / duration, 1);
        const eased = done * done * (3 - 2 * done);
        for (const { dot, path, length } of moving) {
          const { x, y } = path.getPointAtLength(length * eased);
          dot.setAttribute("transform", `translate(${x} ${y})`);
        }
        if (done < 1) requestAnimationFrame(frame);
        else {
          for (const { dot } of moving) dot.remove();
          resolve();
        }
      };
      requestAnimationFrame(frame);
    });
  }
}

// The nearest place above or below that nothing else has taken.
function free({ x, y }, width, taken) {
  const isFree = (at) => !taken.some((other) => Math.abs(other.y - at) < 21 && Math.abs(other.x - x) < (other.width + width) / 2 + 2);
  const found = [0, 22, -22, 44, -44].map((by) => y + by).find(isFree) ?? y;
  taken.push({ x, y: found, width });
  return { x, y: found };
}

// A small sign at the edge of a node, which leaves its name readable.
const badge = (kind, radius, sign) =>
  s("g", { class: `badge-sign ${kind}`, transform: `translate(${radius * 0.82} ${-radius * 0.82})` }, s("circle", { r: 8 }), s("path", { d: sign }));

// ---------------------------------------------------------------- what can be said without a picture

const isBroker = (node) => /^\d+$/.test(String(node));

const ordered = (a, b) => (String(a) < String(b) ? [String(a), String(b)] : [String(b), String(a)]);

// The links that carry anything in the course of a play.
function usedLinks(play) {
  const found = new Map();
  const note = ({ from, to }) => {
    if (from !== to && from !== "keeper" && to !== "keeper" && from !== "admin" && to !== "admin") found.set(ordered(from, to).join("|"), { from, to });
  };
  for (const step of play.recording.steps) {
    for (const beat of step.beats ?? []) (beat.messages ?? []).forEach(note);
    (step.changed.flight ?? []).forEach(note);
  }
  // Replicas fetch from each other; that link is there even if nothing was shown on it.
  for (const { replicas } of play.cast.topics) {
    for (const a of replicas) for (const b of replicas) if (a < b) note({ from: a, to: b });
  }
  return found.values();
}

function isCutOff(zone, cuts, cast) {
  const inside = (node) => {
    const found = cast.brokers.find(({ id }) => String(id) === String(node)) ?? cast.keepers.find(({ name }) => name === node) ?? cast.clients.find(({ name }) => name === node);
    return found?.zone === zone;
  };
  const here = cast.brokers.filter((broker) => broker.zone === zone);
  const elsewhere = cast.brokers.filter((broker) => broker.zone !== zone);
  if (!here.length || !elsewhere.length) return false;
  const blocked = new Set(cuts.filter(([a, b]) => inside(a) !== inside(b)).map(([a, b]) => `${a}|${b}`));
  return here.every(({ id }) => elsewhere.every((other) => blocked.has(`${id}|${other.id}`)));
}

// Offsets at which replicas hold different records.
function differences(scene, topic, replicas) {
  const logs = replicas.map((broker) => scene[`log/${topic}/${broker}`].records);
  const longest = Math.max(...logs.map((records) => records.length));
  const found = new Set();
  for (let offset = 0; offset < longest; offset += 1) {
    const present = logs.filter((records) => offset < records.length).map((records) => records[offset]);
    if (present.some(([epoch, value]) => epoch !== present[0][0] || value !== present[0][1])) found.add(offset);
  }
  return found;
}
