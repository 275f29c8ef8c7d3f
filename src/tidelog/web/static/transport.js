// Time: the buttons, the slider, and what stands out along the way.

import { button, fill, h, s, set, text } from "lab/dom.js";
import { drawCurves } from "lab/futures.js";
import { t } from "lab/words.js";

const ICONS = {
  first: "M4 3h2.4v10H4z M14 3v10L6.5 8z",
  back: "M11.5 3v10L4 8z",
  play: "M4.5 2.5v11L14 8z",
  pause: "M4 3h3v10H4z M9 3h3v10H9z",
  forward: "M4.5 3v10L12 8z",
  last: "M2 3v10l7.5-5z M9.6 3H12v10H9.6z",
};

function icon(name) {
  const size = { viewBox: "0 0 16 16", width: 16, height: 16 };
  return s("svg", { ...size, "aria-hidden": "true" }, s("path", { d: ICONS[name], fill: "currentColor" }));
}

function timeButton(name, key, action) {
  const words = t(name);
  return button(icon(name), action, { class: `plain icon ${name}`, "aria-label": words, title: `${words} (${key})` });
}

export class Transport {
  constructor(stage) {
    this.playButton = timeButton("play", "Space", () => stage.toggle());
    this.slider = h("input", { type: "range", min: 0, max: stage.last, step: 1, "aria-label": t("scrub") });
    this.slider.addEventListener("input", () => stage.jump(Number(this.slider.value)));
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.curves = s("svg", { class: "curves", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.where = h("output", { class: "where" });
    const speed = { class: "plain speed", title: "[ ]", "aria-label": t("speed") };
    this.speed = button("", () => stage.faster(stage.speed >= 4 ? -5 : 1), speed);
    this.element = h("footer", { class: "transport", role: "group", "aria-label": t("transport") },
      h("div", { class: "buttons" },
        timeButton("first", "Home", () => stage.jump(0)),
        timeButton("back", "←", () => stage.back()),
        this.playButton,
        timeButton("forward", "→", () => stage.forward()),
        timeButton("last", "End", () => stage.jump(stage.last))),
      (this.track = h("div", { class: "track" }, this.curves, this.marks, this.slider)),
      this.where, this.speed);
    this.#drawMarks(stage);
    this.drawFutures(stage);
  }

  // When the story was decided, above the slider.
  drawFutures({ futures, last }) {
    this.track.classList.toggle("with-curves", futures.isShown);
    drawCurves(this.curves, futures, last);
  }

  #drawMarks(stage) {
    const at = (step) => `${(step / Math.max(stage.last, 1)) * 100}%`;
    const found = [];
    const place = (kind, step, sign) => {
      const element = h("span", { class: `tick ${kind}` }, sign);
      element.style.left = at(step);
      found.push(element);
    };
    stage.recording.steps.forEach(({ comment }, step) => comment && place("chapter", step, ""));
    const losses = stage.plays.flatMap(({ recording }) => Object.values(recording.lost_at));
    for (const step of new Set(losses)) place("loss", step, "✕");
    if (stage.partsAt !== null) place("parting", stage.partsAt, "◆");
    fill(this.marks, found);
  }

  draw(stage) {
    set(this.slider, "max", stage.last);
    this.slider.value = stage.step;
    const beats = stage.plays[0].beats(stage.step).length;
    const where = stage.step === 0 ? t("atStart") : t("stepOf", { step: stage.step, last: stage.last });
    const message = stage.beat === null ? "" : t("message", { n: stage.beat + 1, all: beats });
    text(this.where, `${stage.step} / ${stage.last}${message && ` · ${stage.beat + 1} / ${beats}`}`);
    set(this.where, "title", [where, message].filter(Boolean).join(" · "));
    set(this.slider, "aria-valuetext", [where, message].filter(Boolean).join(", "));
    set(this.playButton.querySelector("path"), "d", ICONS[stage.playing ? "pause" : "play"]);
    set(this.playButton, "aria-label", t(stage.playing ? "pause" : "play"));
    text(this.speed, `${stage.speed}×`);
  }
}
