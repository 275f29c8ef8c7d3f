// When a story was decided: the share of random futures that loses a record, from each step. The simulator plays
// them; this asks it, and draws the curve above the slider and the words about it.

import { button, fill, h, s } from "lab/dom.js";
import { CannotPlay, source } from "lab/source.js";
import { failureWords, t } from "lab/words.js";

const FUTURES = 200;
const percent = (share) => Math.round(share * 100);

export class Futures {
  constructor(stage) {
    this.stage = stage;
    this.curves = [];
    this.stopping = null;
    this.failure = "";
  }

  // A curve for each play, one after the other. What has come until it is stopped stays.
  async run({ futures = FUTURES, seed = 0 } = {}) {
    this.close();
    const stopping = (this.stopping = new AbortController());
    const { text, plays } = this.stage;
    this.curves = plays.map(({ recording: { generation } }) => ({ generation, shares: [], played: 0, of: 1, futures: 0 }));
    this.#changed();
    try {
      for (const curve of this.curves) {
        const asked = { text, generation: curve.generation, futures, seed };
        await source.futures(asked, (reply) => this.#hear(curve, reply, stopping), stopping.signal);
      }
    } catch (error) {
      if (error instanceof CannotPlay) this.failure = failureWords(error.message);
      else if (error.name !== "AbortError") throw error;
    }
    if (this.stopping === stopping) this.stopping = null;
    this.#changed();
  }

  #hear(curve, reply, stopping) {
    if (stopping.signal.aborted) return;
    Object.assign(curve, reply);
    this.#changed();
  }

  #changed() {
    this.stage.view?.drawFutures();
  }

  stop() {
    this.stopping?.abort();
  }

  // Another story, other rules: the curves are not true of them.
  close() {
    this.stop();
    this.stopping = null;
    this.curves = [];
    this.failure = "";
  }

  get isShown() {
    return this.curves.length > 0;
  }

  get share() {
    return this.curves.reduce((sum, { played, of }) => sum + played / of, 0) / Math.max(this.curves.length, 1);
  }
}

// ---------------------------------------------------------------- words

export function drawFutureWords(element, futures, stage) {
  element.hidden = !futures.isShown;
  if (!futures.isShown) return;
  const close = () => {
    futures.close();
    stage.view.drawFutures();
  };
  const words = h("div", {}, futures.failure ? h("p", { class: "why" }, futures.failure) : futures.curves.map((curve) => lineOf(curve, stage)));
  const bar = element.querySelector("progress");
  if (bar && futures.stopping) {
    // The button stays: one that is replaced with every reply is gone before it is clicked.
    element.firstElementChild.replaceWith(words);
    bar.value = futures.share;
    return;
  }
  fill(element,
    words,
    futures.stopping
      ? [h("progress", { max: 1, value: futures.share, "aria-label": t("futures") }), button(t("exploreStop"), () => futures.stop(), { class: "button small stop" })]
      : button(t("close"), close, { class: "button small" }));
}

function lineOf({ generation, shares, futures, decided_at: at = null }, stage) {
  if (!shares.length) return h("p", { class: "quiet" }, h("b", {}, generation), ` ${t("exploreWaits")}`);
  const step = Math.min(stage.step, shares.length - 1);
  const now = t("futuresStep", { step, share: percent(shares[step]), n: futures });
  return h("p", {}, h("b", {}, generation), ` ${now} `,
    at === null
      ? t("futuresUndecided")
      : [t("futuresDecided", { step: at, before: percent(shares[at - 1]), after: percent(shares[at]) }), " ",
        stage.step !== at && button(`${t("goThere")} (${at})`, () => stage.jump(at), { class: "button small" })]);
}

// ---------------------------------------------------------------- the curve

export function drawCurves(element, { curves }, last) {
  const shown = curves.filter(({ shares }) => shares.length > 1);
  const point = (step, share) => `${((step / Math.max(last, 1)) * 100).toFixed(2)},${(100 - share * 100).toFixed(1)}`;
  fill(element, shown.map(({ generation, shares, decided_at: at }, index) => {
    const points = shares.map((share, step) => point(step, share)).join(" ");
    const end = point(shares.length - 1, 0);
    return s("g", { class: `curve curve-${index}`, "data-generation": generation, "data-decided": at ?? null },
      s("polygon", { points: `${point(0, 0)} ${points} ${end}` }),
      s("polyline", { points, "vector-effect": "non-scaling-stroke" }));
  }));
}
