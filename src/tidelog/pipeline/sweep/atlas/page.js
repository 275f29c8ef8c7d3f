"use strict";
// Chooses among the numbers in the page: which measure the maps show, the evidence of one field, and the
// cheapest configuration. `choosing.py` says what cheapest means.
const { cells, rows, harms } = JSON.parse(document.getElementById("cells").textContent);
const make = (name, text, cls) => Object.assign(document.createElement(name), { textContent: text ?? "", className: cls ?? "" });
const number = (n) => n.toLocaleString("en");

function percent(share) {
  const p = share * 100;
  if (p === 0) return "0 %";
  return (p >= 9.95 ? p.toFixed(0) : p >= 0.995 ? p.toFixed(1) : p >= 0.0995 ? p.toFixed(2) : String(+p.toPrecision(2))) + " %";
}

// Wilson's interval; for what never happened, the rule of three.
function share(k, n) {
  if (!n) return "never tried";
  if (!k) return `never in ${number(n)}: < ${percent(Math.min(1, 3 / n))}`;
  const z = 1.959964, p = k / n, d = 1 + (z * z) / n;
  const middle = (p + (z * z) / (2 * n)) / d;
  const half = (z / d) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return `${percent(p)} (${percent(Math.max(0, middle - half)).replace(" %", "")}–${percent(Math.min(1, middle + half)).replace(" %", "")}), ${number(k)} of ${number(n)}`;
}

// ---- the maps
const maps = document.getElementById("maps");
for (const tab of document.querySelectorAll("[data-measure]")) {
  tab.addEventListener("click", () => {
    maps.dataset.shows = tab.dataset.measure;
    maps.parentElement.dataset.shows = tab.dataset.measure;
    for (const other of document.querySelectorAll("[data-measure]")) other.setAttribute("aria-pressed", String(other === tab));
  });
}

// ---- the evidence of one field
const evidence = document.getElementById("evidence");
function line(list, name, value) {
  list.append(make("dt", name), make("dd", value));
}
function show(name) {
  const cell = cells[name];
  const list = make("dl", "", "facts");
  for (const kind of Object.keys(harms)) line(list, kind, share(cell.bad[kind] ?? 0, cell.n));
  if (cell.unavailable !== null) line(list, "no leader", `${percent(cell.unavailable)} of the time`);
  if (cell.unanswered !== null) line(list, "not acknowledged", `${percent(cell.unanswered)} of the sends`);
  const faults = Object.entries(cell.faults).map(([kind, n]) => `${kind} ${number(n)}`).join(", ");
  line(list, "trials with", faults || "no fault at all");
  if (cell.untried.length) line(list, "never came about", cell.untried.join(", "));
  const seen = Object.entries(cell.seen).map(([mark, n]) => `${mark.replaceAll("_", " ")} ${number(n)}`).join(", ");
  if (seen) line(list, "went through", seen);
  evidence.replaceChildren(make("h3", name), list);
  if (!cell.known) evidence.prepend(make("p", "Unknown: none of its faults came about.", "unsaid"));
  if (cell.story) {
    const words = make("p", `The smallest schedule found (${cell.story.kind}, ${cell.story.steps} steps): `);
    words.append(Object.assign(make("a", "scenario file"), { href: cell.story.file }));
    evidence.append(words, make("pre", `tidelog replay ${cell.story.file}\ntidelog lab ${cell.story.file}`));
  }
  const trials = Object.entries(cell.examples).map(([kind, seed]) => `tidelog sweep --replay ${name}:${seed}   # ${kind}`);
  if (trials.length) evidence.append(make("p", "Trials as they were played:"), make("pre", trials.join("\n")));
}
maps.addEventListener("click", (event) => {
  const field = event.target.closest("[data-cell]");
  if (!field) return;
  for (const other of maps.querySelectorAll(".chosen")) other.classList.remove("chosen");
  field.classList.add("chosen");
  show(field.dataset.cell);
  field.closest(".map").after(evidence);
  const box = evidence.getBoundingClientRect();
  if (box.top > window.innerHeight - 80) evidence.scrollIntoView({ block: "nearest" });
});

// ---- recommended settings
const form = document.getElementById("choose");
const answer = document.getElementById("answer");
const chosen = (name) => [...form.querySelectorAll(`[name=${name}]:checked`)].map((input) => input.value);
function compare(a, b) {
  for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return a[i] - b[i];
  return 0;
}
function choose() {
  const [generation] = chosen("generation"), mixes = chosen("mix"), forbidden = chosen("harm");
  if (!mixes.length || !forbidden.length) {
    answer.replaceChildren(make("p", "Cross at least one fault to survive and one thing that must not happen."));
    return;
  }
  const kept = [], failed = [];
  let unknown = 0;
  for (const row of rows) {
    if (row.generation !== generation) continue;
    const tried = mixes.map((mix) => cells[row.by[mix]]);
    if (tried.some((cell) => !cell || !cell.known)) { unknown += 1; continue; }
    const harm = forbidden.map((kind) => [kind, tried.reduce((sum, cell) => sum + (cell.bad[kind] ?? 0), 0)]).filter(([, k]) => k);
    const price = [...row.cost, Math.max(...tried.map((cell) => cell.unavailable ?? 0))];
    const entry = { row, tried, harm, price, least: Math.min(...tried.map((cell) => cell.n)), all: tried.reduce((sum, cell) => sum + cell.n, 0) };
    (harm.length ? failed : kept).push(entry);
  }
  kept.sort((a, b) => compare(a.price, b.price));
  failed.sort((a, b) => compare(a.price, b.price));
  answer.replaceChildren();
  if (kept.length) {
    const best = kept[0];
    answer.append(make("p", best.row.words.join(", "), "best"));
    answer.append(make("p", `Never failed in ${number(best.least)} trials or more of each mix, ${number(best.all)} in all: with 95 % confidence below ${percent(Math.min(1, 3 / best.least))} under each. It was without a leader up to ${percent(best.price.at(-1))} of the time.`));
  } else {
    answer.append(make("p", `No configuration of this atlas under ${generation} kept to that.`, "best"));
  }
  const cheaper = failed.filter((entry) => !kept.length || compare(entry.price, kept[0].price) < 0);
  if (cheaper.length) {
    const list = make("ul");
    for (const entry of cheaper.slice(-4)) {
      const harm = entry.harm.map(([kind, k]) => `${kind} ${share(k, entry.all)}`).join("; ");
      list.append(make("li", `${entry.row.words.join(", ")}: ${harm}`));
    }
    answer.append(make("p", `${cheaper.length} cheaper ${cheaper.length === 1 ? "one" : "ones"} failed:`), list);
  }
  if (unknown) answer.append(make("p", `${unknown} were not tried under all of these faults and are left out.`, "soft"));
}
form.addEventListener("change", choose);
choose();
