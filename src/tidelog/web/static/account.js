// What can be said of a story without its author: how it ends, and what each step did. All of it is computed from
// the recording, so it is true of a changed story and under any rules.

import { CHANGED_HERE } from "lab/draft.js";
import { eventWords, t, translated } from "lab/words.js";

export const KINDS = ["lost", "duplicated", "diverged", "rewritten", "reordered", "phantom"];

// The most telling events first.
const TELLING = [
  "Truncated", "BrokerExited", "BecameLeader", "ElectionFailed", "PartitionStateWritten", "SendFailed", "Acknowledged",
  "RecordRead", "ControllerElected", "IsrChangeProposed", "HighWatermarkAdvanced", "Followed", "BecameFollower",
];
const SENTENCES_MAX = 2;

export const findingWords = (kind, found) =>
  found.map(({ value, offset }) => (kind === "diverged" ? `@${offset} ${value}` : value)).join(", ");

// The author's title where it is true of these rules and this text; else how the play ends.
export function titleOf({ plays, draft }) {
  const holds = plays.filter(({ recording }) => recording.title && recording.title_holds).map(({ recording }) => recording);
  if (holds.length === plays.length) return translated(holds[0].title);
  if (holds.length) return `${translated(holds[0].title)} (${holds.map(({ generation }) => generation).join(", ")})`;
  return plays[0].last === 0 ? draft.name : plays.map(({ recording }) => endOf(recording)).join(t("semicolon"));
}

function endOf({ verdict, generation }) {
  const bad = KINDS.filter((kind) => verdict[kind].length);
  const what = bad.map((kind) => `${t(kind)} ${findingWords(kind, verdict[kind])}`).join(t("comma"));
  return bad.length ? t("endsBadly", { generation, what }) : t("endsWell", { generation });
}

// Whether a comment is its author's, and not only the mark of a change.
export const isNarrated = (comment) => comment !== null && !comment.includes(CHANGED_HERE);

// A step in sentences, from its events.
export function accountOf(play, at) {
  const lost = Object.entries(play.recording.lost_at).filter(([, step]) => step === at).map(([value]) => value);
  const events = (play.step(at).events ?? []).filter(({ key }) => TELLING.includes(key));
  const rank = ({ key }) => TELLING.indexOf(key);
  const chosen = new Set([...events].sort((a, b) => rank(a) - rank(b)).slice(0, SENTENCES_MAX));
  const said = events.filter((event) => chosen.has(event)).map((event) => sentence(eventWords(event)));
  if (lost.length) said.push(t("lostHere", { values: lost.join(", ") }));
  if (!said.length) said.push(...written(play, at).slice(0, SENTENCES_MAX));
  return said.join(t("betweenSentences")) || t("nothingSeen");
}

// A follower that copies records is no event of its own: what the logs and watermarks show of a step.
function written(play, at) {
  const [before, after] = [play.scene(at - 1), play.scene(at)];
  const said = [];
  for (const [topic, { replicas }] of play.cast.topics.entries()) {
    for (const broker of replicas) {
      const [then, now] = [before, after].map((scene) => scene[`log/${topic}/${broker}`]);
      const values = now.records.slice(then.records.length).map(([, value]) => value).join(t("comma"));
      if (now.leo > then.leo && values) said.push(t("logGrew", { broker, values }));
      else if (now.leo !== then.leo) said.push(t("logMoved", { broker, before: then.leo, after: now.leo }));
      // Of a broker that is down one sees what is on its disk.
      const isDown = after[`broker/${broker}`].process === "down";
      if (now.hw !== then.hw) said.push(t(isDown ? "watermarkOnDisk" : "watermarkMoved", { broker, before: then.hw, after: now.hw }));
    }
  }
  return said;
}

const sentence = (words) => (/[.。!?]$/.test(words) ? words : words + t("fullStop"));
