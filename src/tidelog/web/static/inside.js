// What each one knows, as text: above the picture the keeper of the partition, below it a leader of its followers,
// every broker of its epochs, its disk and its clients. What the step changed stands out.

import { fill, h } from "lab/dom.js";
import { phaseWords, t } from "lab/words.js";

// `generation` is named where there are two.
export function makeInside(generation) {
  return h("details", { class: "inside", open: innerWidth >= 900 },
    h("summary", {}, t("insideTitle"), generation && h("small", {}, generation)), h("div", { class: "inside-body" }));
}

// Something that is said of a scene, marked where it was not so before.
function saying(scene, before) {
  return (of, ...given) => {
    const now = of(scene, ...given);
    const isNew = before !== null && now !== of(before, ...given);
    return h("span", { class: isNew ? "changed" : "" }, now || "–");
  };
}

// What the keeper holds of each partition: a line above the picture.
export function drawKeeper(element, cast, scene, before = null) {
  const say = saying(scene, before);
  fill(element, cast.topics.map(({ name }, number) => h("p", { class: "inside-keeper" },
    h("b", {}, cast.topics.length > 1 ? `keeper, ${name}-0` : "keeper"), say(partWords, number))));
}

export function drawInside(element, cast, scene, before = null) {
  const say = saying(scene, before);
  const cells = (number, broker) => COLUMNS.map(({ of, title, isWrong }, index) => h(index ? "td" : "th", {
    "data-title": t(title), scope: index ? null : "row", class: isWrong?.(scene, number, broker) ? "wrong" : null,
  }, say(of, number, broker)));
  fill(element.querySelector(".inside-body"), cast.topics.flatMap((topic, number) => [
    cast.topics.length > 1 && h("p", { class: "inside-topic" }, `${topic.name}-0`),
    h("div", { class: "inside-scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, COLUMNS.map(({ title }) => h("th", { scope: "col" }, t(title))))),
      h("tbody", {}, topic.replicas.map((broker) => h("tr", { class: rowClass(scene, number, broker) }, cells(number, broker)))))),
    ...leaderLines(scene, number, topic).map((words) => h("p", { class: "inside-wait" }, words)),
  ]));
}

function rowClass(scene, number, broker) {
  if (scene[`broker/${broker}`].process === "down") return "down";
  return scene[`log/${number}/${broker}`].role === "leader" ? "leads" : "";
}

// ---------------------------------------------------------------- the keeper

function partWords(scene, number) {
  const { leader, epoch, isr, elr, lastKnown, phase } = scene[`part/${number}`];
  const { controller, epoch: controllerEpoch } = scene.now;
  const said = [
    leaderWords(leader),
    t("insideEpoch", { epoch }),
    `ISR [${isr.join(",")}]`,
    elr.length && `ELR [${elr.join(",")}]`,
    lastKnown.length && `LastKnownElr [${lastKnown.join(",")}]`,
    controller === null ? t("insideNoController") : t("insideController", { controller, epoch: controllerEpoch }),
    phase && phaseWords("PartitionPhase", phase),
  ];
  return said.filter(Boolean).join(" · ");
}

const leaderWords = (leader) => (leader < 0 ? t("insideNoLeader") : t("insideLeader", { leader }));

// ---------------------------------------------------------------- brokers

const COLUMNS = [
  { title: "insideBroker", of: brokerWords },
  { title: "insideRemote", of: remoteWords },
  { title: "insideEpochs", of: epochWords },
  { title: "insideDisk", of: diskWords },
  { title: "insideTells", of: metadataWords, isWrong: isStale },
  { title: "insidePhase", of: replicaWords },
  { title: "insideSession", of: sessionWords },
];

function brokerWords(scene, number, broker) {
  const { process, controls } = scene[`broker/${broker}`];
  const { role } = scene[`log/${number}/${broker}`];
  const state = process !== "up" ? t(process) : role === "-" ? t("noRole") : t(role);
  return `${broker} ${state}${controls && scene.now.controller !== broker ? `, ${t("staleController")}` : ""}`;
}

// The second set of log ends: what a leader knows of its followers.
function remoteWords(scene, number, broker) {
  return scene[`inside/${number}/${broker}`].remote.map(([follower, leo]) => `${follower}: ${leo ?? "?"}`).join("   ");
}

function epochWords(scene, number, broker) {
  return scene[`log/${number}/${broker}`].epochs.map(([epoch, start]) => `${epoch} → ${start}`).join("   ");
}

function diskWords(scene, number, broker) {
  const { checkpoint } = scene[`inside/${number}/${broker}`];
  const isDown = scene[`broker/${broker}`].process === "down";
  return `${isDown ? "–" : scene[`log/${number}/${broker}`].hw} / ${checkpoint}`;
}

function metadataWords(scene, number, broker) {
  const { believes } = scene[`log/${number}/${broker}`];
  if (!believes || scene[`broker/${broker}`].process === "down") return "";
  return `${leaderWords(believes.leader)}, ${t("insideEpoch", { epoch: believes.leader_epoch })}, [${believes.isr.join(",")}]`;
}

function isStale(scene, number, broker) {
  const { believes } = scene[`log/${number}/${broker}`];
  const { leader, epoch } = scene[`part/${number}`];
  return scene[`broker/${broker}`].process === "up" && believes && (believes.leader !== leader || believes.leader_epoch !== epoch);
}

function replicaWords(scene, number, broker) {
  const phase = scene[`part/${number}`].phases[broker];
  return phase ? phaseWords("ReplicaPhase", phase) : "";
}

function sessionWords(scene, number, broker) {
  const { process, member } = scene[`broker/${broker}`];
  if (process === "down") return "";
  return member ? member.replace("keeper-", "k") : t("insideNowhere"); // as in the picture
}

// ---------------------------------------------------------------- what waits at leaders

function leaderLines(scene, number, topic) {
  return topic.replicas.flatMap((leader) => {
    const { remote, parked } = scene[`inside/${number}/${leader}`];
    const ages = scene[`caught/${number}/${leader}`] ?? [];
    const caught = remote.map(([follower], index) => {
      const age = ages[index] ?? null;
      return age === null ? t("insideNotCaughtUp", { follower }) : t("insideCaughtUp", { follower, seconds: (age / 1000).toFixed(1) });
    });
    const waiting = parked.map(([kind, sender, offset]) => {
      const who = /^\d+$/.test(sender) ? t("brokerN", { n: sender }) : sender;
      return t(kind === "fetch" ? "insideFetch" : "insideProduce", { sender: who, offset });
    });
    const said = [...caught, ...waiting];
    return said.length ? [`${t("insideAtLeader", { leader })} ${said.join(t("semicolon"))}`] : [];
  });
}
