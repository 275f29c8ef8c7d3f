// What can be said of a scene without a picture: who is linked to whom, who is cut off, where logs differ.

const NOWHERE = new Set(["keeper", "admin"]);

export const isBroker = (node) => /^\d+$/.test(String(node));

export const ordered = (a, b) => (String(a) < String(b) ? [String(a), String(b)] : [String(b), String(a)]);

// The links that carry anything in the course of a play.
export function usedLinks(play) {
  const found = new Map();
  const note = ({ from, to }) => {
    if (from !== to && !NOWHERE.has(from) && !NOWHERE.has(to)) found.set(ordered(from, to).join("|"), { from, to });
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

// Whether no broker of a zone reaches any broker outside of it.
export function isCutOff(zone, cuts, cast) {
  const here = cast.brokers.filter((broker) => broker.zone === zone);
  const elsewhere = cast.brokers.filter((broker) => broker.zone !== zone);
  if (!here.length || !elsewhere.length) return false;
  const blocked = new Set(cuts.map(([a, b]) => `${a}|${b}`));
  return here.every(({ id }) => elsewhere.every((other) => blocked.has(`${id}|${other.id}`)));
}

// Offsets at which replicas hold different records.
export function differences(scene, topic, replicas) {
  const logs = replicas.map((broker) => scene[`log/${topic}/${broker}`].records);
  const longest = Math.max(...logs.map((records) => records.length));
  const found = new Set();
  for (let offset = 0; offset < longest; offset += 1) {
    const present = logs.filter((records) => offset < records.length).map((records) => records[offset]);
    const [first, ...others] = present;
    if (others.some(([epoch, value]) => epoch !== first[0] || value !== first[1])) found.add(offset);
  }
  return found;
}

// What a broker is for a partition, by the keeper: a key of the words.
export function membershipOf({ isr, elr }, broker) {
  return isr.includes(broker) ? "inIsr" : elr.includes(broker) ? "inElr" : "notInIsr";
}

const FROM_LEAST = ["notInIsr", "inElr", "inIsr"];

// The same for all partitions of which it has a replica: in sync only if it is in sync in each. Null without a replica.
export function membershipInAll(scene, { topics }, broker) {
  const found = topics.flatMap(({ replicas }, number) => (replicas.includes(broker) ? [membershipOf(scene[`part/${number}`], broker)] : []));
  return FROM_LEAST.find((one) => found.includes(one)) ?? null;
}
