// The picture: zones, nodes, links, logs, messages. It is made once and then changed where the scene changed.
//
// Nothing here knows about time; `draw` shows a scene, `travel` lets messages run along their links.

import { calm, s, set, text } from "lab/dom.js";
import { movingMessages, run, waitingMessages } from "lab/flight.js";
import { layoutOf, linkPath } from "lab/layout.js";
import { LogRow } from "lab/logrow.js";
import { brokerShape, clientShape, keeperShape, zoneShape } from "lab/shapes.js";
import { differences, isBroker, isCutOff, membershipInAll, ordered, usedLinks } from "lab/topology.js";
import { t } from "lab/words.js";

const RINGS = { inIsr: "in-isr", inElr: "in-elr", notInIsr: "" };

export class SceneView {
  // `onPick({kind, …}, element)` is called when the reader chooses something in the picture.
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

  // Lay out for a width, and if possible no higher than `room`. All of it is made again; `draw` must follow.
  resize(width, room = Infinity) {
    if (width === this.width && room === this.room) return false;
    this.width = width;
    this.room = room;
    const layout = (this.layout = layoutOf(this.cast, width, this.longest, room));
    set(this.svg, "viewBox", `0 0 ${layout.width} ${layout.height}`);
    set(this.svg, "width", layout.width);
    set(this.svg, "height", layout.height);
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    this.#makeZones();
    this.links = new Map();
    this.nodes = new Map();
    for (const { from, to } of usedLinks(this.play)) this.#link(from, to);
    this.#makeNodes();
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
    for (const zone of this.layout.zones) {
      const made = zoneShape(zone, this.layout);
      this.#pickable(made.group, { kind: "zone", zone: zone.name });
      this.zones.set(zone.name, made);
      this.layers.zones.append(made.group);
    }
  }

  #makeNode(name, made, what) {
    const { x, y } = this.layout.places.get(String(name));
    set(made.group, "transform", `translate(${x} ${y})`);
    this.#pickable(made.group, what);
    this.nodes.set(String(name), made);
    this.layers.nodes.append(made.group);
  }

  #makeNodes() {
    const { layout, cast } = this;
    for (const client of cast.clients) this.#makeNode(client.name, clientShape(client, layout, cast.topics.length > 1), { kind: "client", client });
    for (const { name } of cast.keepers) this.#makeNode(name, keeperShape(name), { kind: "keeper", name });
    for (const { id } of cast.brokers) {
      this.#makeNode(id, brokerShape(id, layout), { kind: "broker", id });
      if (!cast.topics.some(({ replicas }) => replicas.includes(id))) {
        const { y } = layout.places.get(String(id));
        this.layers.logs.append(s("text", { class: "no-replica", x: layout.log, y, dy: "0.35em" }, t("noReplica")));
      }
    }
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
    const anyBroker = this.cast.brokers.some(({ id }) => changed(`broker/${id}`));
    const anyTopic = topics.some(({ replicas }, number) =>
      changed(`part/${number}`) || replicas.some((broker) => changed(`log/${number}/${broker}`)));
    if (anyBroker || anyTopic || changed("now")) {
      for (const { id } of this.cast.brokers) this.#drawBroker(id, scene);
    }
    for (const { name } of this.cast.keepers) {
      if (changed(`keeper/${name}`)) this.#drawKeeper(name, scene[`keeper/${name}`]);
    }
    if (changed("cuts") || changed("held")) this.#drawLinks(scene);
    topics.forEach((topic, number) => {
      const anyLog = topic.replicas.some((broker) => ["log", "inside"].some((kind) => changed(`${kind}/${number}/${broker}`)) || changed(`broker/${broker}`));
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
          inside: scene[`inside/${number}/${broker}`],
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
    const logs = this.cast.topics.map((_, number) => scene[`log/${number}/${id}`]).filter(Boolean);
    const role = logs.find((log) => log.role !== "-")?.role ?? null;
    const led = this.cast.topics.filter((_, number) => scene[`log/${number}/${id}`]?.role === "leader").map(({ name }) => name);
    const membership = membershipInAll(scene, this.cast, id);
    const official = scene.now.controller === id;
    const stale = broker.controls && !official;
    const state = ["broker", broker.process];
    if (RINGS[membership]) state.push(RINGS[membership]);
    if (official) state.push("official");
    if (stale) state.push("stale");
    if (led.length > 0 && broker.process !== "down") state.push("leading");
    if (!broker.registered && broker.process !== "down") state.push("unregistered");
    set(node.group, "class", state.join(" "));
    // With several topics, the name says which of them it leads.
    const leader = this.cast.topics.length > 1 && led.length > 0 ? `${t("leader")} ${led.join(", ")}` : null;
    text(node.role, broker.process !== "up" ? t(broker.process) : leader ?? (role ? t(role) : ""));
    const said = [t("brokerN", { n: id }), t(broker.process)];
    if (logs.length && broker.process !== "down") said.push(t(role ?? "noRole"));
    if (membership) said.push(t(membership));
    if (official) said.push(t("controller"));
    if (stale) said.push(t("staleController"));
    set(node.group, "aria-label", said.join(", "));
    text(node.hint, said.join(", "));
    text(node.crownHint, t(stale ? "staleCrownHint" : "crownHint"));
  }

  #drawKeeper(name, keeper) {
    const { group, hint } = this.nodes.get(name);
    const state = !keeper.running ? "stopped" : keeper.serving ? "serving" : "notServing";
    set(group, "class", `keeper ${state}${keeper.leads ? " leads" : ""}`);
    const said = [t("keeperN", { n: name.replace("keeper-", "") }), t(state), keeper.leads && t("leads")];
    set(group, "aria-label", said.filter(Boolean).join(", "));
    text(hint, `${said.filter(Boolean).join(", ")}. ${t("keeperHint")}`);
  }

  #drawLinks(scene) {
    const cut = new Set(scene.cuts.map(([a, b]) => ordered(a, b).join("|")));
    const held = new Set(scene.held.flatMap((channel) => {
      const ends = channel.split(" ")[1]?.split("->");
      return ends ? [ordered(...ends.map((end) => this.#address(end, scene, ends))).join("|")] : [];
    }));
    for (const key of [...cut, ...held]) {
      const [a, b] = key.split("|");
      // Unused links need no line, unless one of two brokers: those show where the network ends.
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
    const route = (message) => this.#pathOf(message, scene);
    const waiting = waitingMessages(scene.flight, this.layout, route);
    for (const { group, message } of waiting) this.#pickable(group, { kind: "message", message });
    this.layers.flight.replaceChildren(...waiting.map(({ group }) => group));
  }

  // Messages run along their links. The promise ends when they have arrived, or when `stop` says so.
  travel(messages, scene, duration, stop) {
    if (calm() || duration < 40) return Promise.resolve();
    const route = (message) => this.#pathOf(message, scene);
    return run(movingMessages(messages, this.layout, route), this.layers.moving, duration, stop);
  }
}
