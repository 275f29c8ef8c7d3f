// A recording as something to stand in: the scene at any step, and at any beat within a step.
//
// A scene is an object of things by key (web/play/scene.py). Things that did not change are the same objects from
// scene to scene, so the drawing code knows by identity what to leave alone.

export class Play {
  constructor(recording) {
    this.recording = recording;
    this.cast = recording.cast;
    this.scenes = [];
    let scene = {};
    for (const step of recording.steps) {
      scene = { ...scene, ...step.changed };
      this.scenes.push(scene);
    }
  }

  // The longest log there ever is.
  get longest() {
    const ends = this.scenes.flatMap((scene) =>
      Object.keys(scene).filter((key) => key.startsWith("log/")).map((key) => scene[key].leo));
    return Math.max(...ends);
  }

  get last() {
    return this.scenes.length - 1;
  }

  step(at) {
    return this.recording.steps[Math.min(at, this.last)];
  }

  beats(at) {
    return this.recording.steps[at]?.beats ?? [];
  }

  scene(at) {
    return this.scenes[Math.min(Math.max(at, 0), this.last)];
  }

  // The scene within a step, after so many of its beats. Cuts and holds are the step's own doing and come first.
  within(at, beat) {
    const before = this.scene(at - 1);
    const after = this.scene(at);
    const waiting = new Set(before.flight.map((message) => JSON.stringify(message)));
    const scene = {
      ...before,
      cuts: after.cuts,
      held: after.held,
      flight: after.flight.filter((message) => waiting.has(JSON.stringify(message))),
    };
    for (const { changed } of this.beats(at).slice(0, beat + 1)) Object.assign(scene, changed);
    return scene;
  }

  // The comment that a step belongs to: its own, or the one above it. Where nothing of a comment is true of this
  // play, there is a chapter without one.
  chapter(at) {
    for (let step = Math.min(at, this.last); step > 0; step -= 1) {
      const { comment = null, source } = this.recording.steps[step];
      if (comment || source) return { comment, step };
    }
    return { comment: null, step: 0 };
  }

  // The answers to producers up to now, in the order of sending, and what became of it.
  ledger(scene, at) {
    const lines = [];
    for (const client of this.cast.clients) {
      if (client.kind !== "producer") continue;
      for (const [index, sent] of scene[`client/${client.name}`].entries()) {
        const lostAt = this.recording.lost_at[sent.value];
        const lost = sent.outcome === "ok" && lostAt !== undefined && at >= lostAt;
        const copies = this.#copies(scene, client.topic, sent.value);
        lines.push({ ...sent, producer: client.name, lost, copies, order: this.#sentAt(client.name, index) });
      }
    }
    return lines.sort((a, b) => a.order - b.order);
  }

  #order = new Map();

  #sentAt(client, index) {
    const key = `${client}/${index}`;
    if (!this.#order.has(key)) {
      const step = this.scenes.findIndex((scene) => (scene[`client/${client}`]?.length ?? 0) > index);
      this.#order.set(key, (step < 0 ? this.last : step) * 1000 + index);
    }
    return this.#order.get(key);
  }

  // On how many replicas of a topic a value is, how often at most on one, and out of how many replicas.
  #copies(scene, topic, value) {
    const number = this.cast.topics.findIndex(({ name }) => name === topic);
    const counts = this.cast.topics[number].replicas.map((broker) =>
      scene[`log/${number}/${broker}`].records.filter((record) => record[1] === value).length);
    return { replicas: counts.filter(Boolean).length, most: Math.max(...counts), all: counts.length };
  }
}
