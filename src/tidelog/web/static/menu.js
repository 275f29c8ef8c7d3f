// What can be done to the thing that was chosen: each line adds commands to the story, at this step.

import { button, h } from "lab/dom.js";
import { exploreLink } from "lab/links.js";
import { source } from "lab/source.js";
import { membershipOf } from "lab/topology.js";
import { channelWords, messageWords, nodeWords, t } from "lab/words.js";

export function menuFor(what, stage) {
  const scene = stage.plays[0].scene(stage.step);
  const { title, about = [], actions } = MENUS[what.kind](what, stage, scene);
  return [
    h("p", { class: "menu-title" }, title),
    about.filter(Boolean).map((words) => h("p", { class: "menu-about" }, words)),
    source.live ? deeds(actions, stage) : h("p", { class: "menu-about" }, t("notInThisFile")),
  ];
}

function deeds(actions, stage) {
  const change = (event) => (stage.keepRest = event.target.checked);
  const keep = h("input", { type: "checkbox", checked: stage.keepRest, onchange: change });
  return [
    h("p", { class: "menu-lead" }, t("actHere")),
    h("ul", { class: "menu" }, actions.filter(Boolean).map(([words, command]) =>
      h("li", {}, button([words, h("code", {}, command)], () => stage.act([command]), { class: "plain" })))),
    stage.step < stage.last && h("label", { class: "keep" }, keep, t("keepRest")),
  ];
}

const MENUS = {
  broker({ id }, stage, scene) {
    const { process, registered } = scene[`broker/${id}`];
    const { cast } = stage.plays[0];
    const running = process !== "down";
    const logs = cast.topics.flatMap(({ name }, number) => (scene[`log/${number}/${id}`] ? [{ name, number, log: scene[`log/${number}/${id}`] }] : []));
    const roleOf = ({ role }) => running && role !== "-" && t(role);
    const several = cast.topics.length > 1;
    const joined = (...words) => words.filter(Boolean).join(" · ");
    return {
      title: joined(t("brokerN", { n: id }), t(process), !several && logs.length > 0 && roleOf(logs[0].log)),
      about: [
        ...logs.flatMap(({ name, number, log }) => [
          joined(several && name, several && roleOf(log), t(membershipOf(scene[`part/${number}`], id)), `LEO ${log.leo}`, `HW ${log.hw}`),
          log.epochs.length > 0 && log.epochs.map(([epoch, start]) => `${t("inEpoch", { epoch })} @${start}`).join(", "),
          running && log.believes && t("believes", { leader: log.believes.leader, epoch: log.believes.leader_epoch }),
        ]),
        running && !registered && t("unregistered"),
      ],
      actions: [
        running && [t("doCrash"), `crash ${id}`],
        running && [t("doPowerOff"), `power-off ${id}`],
        process === "up" && [t("doPause"), `pause ${id}`],
        process === "paused" && [t("doResume"), `resume ${id}`],
        !running && [t("doRestart"), `restart ${id}`],
        running && [t("doSync"), `sync ${id}`],
        process === "up" && [t("doStop"), `stop ${id}`],
      ],
    };
  },

  client({ client }, stage, scene) {
    if (client.kind === "consumer") {
      const reads = scene[`client/${client.name}`].map(([value, offset]) => `${value}@${offset}`).join(" ");
      return {
        title: `${client.name} · ${t("consumer")}`,
        about: [reads ? t("hasRead", { values: reads }) : t("hasReadNothing")],
        actions: [[t("doRead"), `read ${client.name}`]],
      };
    }
    const value = freshValue(stage);
    return {
      title: `${client.name} · ${t("producer")} · acks=${client.acks}${client.idempotent ? ` · ${t("idempotent")}` : ""}`,
      actions: [
        [t("doProduce", { value }), `produce ${client.name} ${value}`],
        [t("doSend", { value }), `send ${client.name} ${value}`],
      ],
    };
  },

  keeper({ name }, stage, scene) {
    const number = name.replace("keeper-", "");
    const { running, serving, leads } = scene[`keeper/${name}`];
    const state = !running ? "stopped" : serving ? "serving" : "notServing";
    return {
      title: [t("keeperN", { n: number }), t(state), leads && t("leads")].filter(Boolean).join(" · "),
      actions: [running ? [t("doKeeperStop"), `keeper-stop ${number}`] : [t("doKeeperStart"), `keeper-start ${number}`]],
    };
  },

  zone({ zone }, stage, scene) {
    return {
      title: t("zone", { zone }),
      actions: [[t("doIsolate"), `isolate ${zone}`], scene.cuts.length > 0 && [t("doHeal"), "heal"]],
    };
  },

  link({ a, b }, stage, scene) {
    const cut = scene.cuts.some(([x, y]) => (String(x) === a && String(y) === b) || (String(x) === b && String(y) === a));
    const bothBrokers = [a, b].every((node) => /^\d+$/.test(node));
    const held = new Set(scene.held);
    const channels = bothBrokers
      ? [["fetch", a, b], ["fetch", b, a], ["fetch-reply", a, b], ["fetch-reply", b, a], ["control", a, b], ["control", b, a]]
      : clientChannels(a, b);
    return {
      title: `${nodeWords(a)} ↔ ${nodeWords(b)}`,
      about: [cut && t("cutLink")],
      actions: [
        cut ? [t("doHealLink"), `heal ${a} ${b}`] : [t("doCut"), `cut ${a} ${b}`],
        bothBrokers && !cut && [t("doReset"), `reset ${a} ${b}`],
        ...channels.map(([channel, from, to]) => {
          const name = `${channel} ${from}->${to}`;
          const words = { channel: `${channelWords(channel)} ${from} → ${to}` };
          return held.has(name) ? [t("doRelease", words), `release ${name}`] : [t("doHold", words), `hold ${name}`];
        }),
      ],
    };
  },

  message({ message }, stage, scene) {
    const channel = `${message.channel} ${message.from}->${message.to}`;
    const isHeld = scene.held.includes(channel);
    return {
      title: messageWords(message),
      about: [`${channelWords(message.channel)} · ${t("from", { from: nodeWords(message.from), to: nodeWords(message.to) })}`],
      actions: [
        [t("doDeliver"), `deliver ${channel}`],
        [t("doDrop"), `drop ${channel}`],
        isHeld && [t("doRelease", { channel: channelWords(message.channel) }), `release ${channel}`],
      ],
    };
  },

  cluster(_, stage, scene) {
    const { cast } = stage.plays[0];
    const down = cast.brokers.filter(({ id }) => scene[`broker/${id}`].process === "down").map(({ id }) => id);
    const form = commandForm(stage);
    return {
      title: t("time"),
      about: source.live ? [t("clickHint"), form, button(t("exploreHere"), () => exploreFrom(stage), { class: "button small" })] : [],
      actions: [
        [t("doAdvance", { duration: "1 s" }), "advance 1s"],
        [t("doAdvance", { duration: "10 s" }), "advance 10s"],
        [t("doElect"), "elect-preferred"],
        scene.cuts.length > 0 && [t("doHeal"), "heal"],
        scene.held.length > 0 && [t("doReleaseAll"), "release all"],
        down.length > 0 && [t("doRestart"), `restart ${down.join(" ")}`],
        [t("doConverge"), "wait converged within 60s"],
      ],
    };
  },
};

async function exploreFrom(stage) {
  location.hash = await exploreLink(stage);
}

function clientChannels(a, b) {
  const client = /^\d+$/.test(a) ? b : a;
  const broker = client === a ? b : a;
  if (client.startsWith("keeper")) return [["keeper", broker, "keeper"], ["keeper-reply", "keeper", broker]];
  return [["client", client, broker], ["client-reply", broker, client]];
}

function commandForm(stage) {
  const hints = { placeholder: t("commandHint"), "aria-label": t("command"), autocomplete: "off", spellcheck: "false" };
  const input = h("input", { type: "text", ...hints });
  const form = h("form", { class: "command" }, input, h("button", { type: "submit", class: "button small" }, t("add")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) stage.act([input.value.trim()]);
  });
  return form;
}

// A value that no producer has sent yet in this story.
function freshValue(stage) {
  const sends = stage.draft.steps.filter(({ command }) => /^(send|produce) /.test(command));
  const used = new Set(sends.flatMap(({ command }) => command.split(" ").slice(2)));
  for (let index = 0; ; index += 1) {
    const letter = String.fromCharCode(97 + (index % 26));
    const value = index < 26 ? letter : `${letter}${Math.floor(index / 26)}`;
    if (!used.has(value)) return value;
  }
}
