// The page as a whole: what the address asks for, the bar at the top, keys, language and theme.

import { $, button, fill, h, text } from "lab/dom.js";
import { explorePage } from "lab/explore.js";
import { BrokenLink, playLink, readLink } from "lab/links.js";
import { makerPage } from "lab/maker.js";
import { clearToast, closePopover, showHelp, watchTerms } from "lab/popover.js";
import { askPython, state as python, watchPython } from "lab/python.js";
import { shelfPage } from "lab/shelf.js";
import { CannotPlay, source } from "lab/source.js";
import { Stage } from "lab/stage.js";
import { failureWords, languageNow, LANGUAGES, setLanguage, setWords, t } from "lab/words.js";

const THEMES = ["auto", "light", "dark"];
const FILE_BYTES_MAX = 200_000;

const main = $("#main");
const bar = $("#bar");
let stage = null;
let asked = 0;

function remembered(key, otherwise) {
  try {
    return localStorage.getItem(key) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Private windows may refuse; the choice then lasts as long as the page.
  }
}

// ---------------------------------------------------------------- the bar

const ICON = { class: "plain icon" };

const labelled = (words) => ({ ...ICON, title: words, "aria-label": words });

function languageButton([code, name]) {
  const lang = code === "zh" ? "zh-Hans" : "en";
  return button(name, () => changeLanguage(code), { class: "plain", lang, "aria-pressed": String(code === languageNow()) });
}

function drawBar() {
  const theme = remembered("theme", "auto");
  const themeName = { auto: "themeAuto", light: "themeLight", dark: "themeDark" }[theme];
  fill(bar,
    h("a", { class: "brand", href: "#/" }, h("span", { class: "mark-t", "aria-hidden": "true" }), t("appName")),
    h("nav", { "aria-label": t("allScenarios") },
      h("a", { href: "#/" }, t("allScenarios")),
      source.live && h("a", { href: "#/make" }, t("makeOwn")),
      source.live && h("a", { href: "#/explore" }, t("explore")),
      source.live && button(t("openFile"), openFile, { class: "plain" })),
    h("div", { class: "settings" },
      simulator,
      h("div", { class: "languages", role: "group", "aria-label": t("language") }, Object.entries(LANGUAGES).map(languageButton)),
      button({ auto: "◐", light: "○", dark: "●" }[theme], changeTheme, labelled(t(themeName))),
      button("?", showHelp, labelled(t("help")))));
  text($(".skip"), t("skip"));
  drawSimulator(python);
}

// Where Python runs in this browser: how far it is.
const simulator = h("span", { class: "simulator", role: "status" });

function drawSimulator({ phase, share, version }) {
  simulator.hidden = phase === "none";
  simulator.dataset.phase = phase;
  simulator.style.setProperty("--share", phase === "loading" ? share : 1);
  text(simulator, phase === "none" ? "" : t(SIMULATOR[phase][0], { share: Math.floor(share * 100) }));
  simulator.title = phase === "none" ? "" : t(SIMULATOR[phase][1], { version });
}

const SIMULATOR = {
  loading: ["pythonLoading", "pythonLoadingHelp"],
  ready: ["pythonReady", "pythonReadyHelp"],
  failed: ["pythonFailed", "noPython"],
};

function changeLanguage(code) {
  setLanguage(code);
  remember("language", code);
  drawBar();
  if (stage) stage.redraw();
  else open();
}

function changeTheme() {
  const theme = THEMES[(THEMES.indexOf(remembered("theme", "auto")) + 1) % THEMES.length];
  remember("theme", theme);
  applyTheme(theme);
  drawBar();
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// ---------------------------------------------------------------- what the address asks for

async function open() {
  const mine = (asked += 1);
  closePopover();
  clearToast();
  let link;
  try {
    link = await readLink(location.hash);
  } catch (error) {
    if (error instanceof BrokenLink) return complain(t("brokenLink"), t("brokenLinkLead"));
    throw error;
  }
  if (mine !== asked) return;
  try {
    if (link.page === "shelf") show(await shelfPage(openFile));
    else if (link.page === "make") show(makerPage());
    else if (link.page === "explore") show(explorePage(link.story));
    else await openStage(link, mine);
  } catch (error) {
    if (mine !== asked) return;
    if (!(error instanceof CannotPlay)) throw error;
    complain(t("cannotPlay"), failureWords(error.message), link.text);
  }
}

async function openStage(link, mine) {
  const text = link.page === "play" ? link.text : await source.text(link.name);
  const next = new Stage({ ...link, text, name: link.page === "scenario" ? link.name : null });
  await next.load();
  if (mine !== asked) return;
  show(next.element, next);
}

function show(element, next = null) {
  stage?.close();
  stage = next;
  fill(main, element);
  document.body.classList.toggle("on-stage", Boolean(next));
  if (next) next.opened();
  else {
    document.title = t("appName");
    scrollTo(0, 0);
  }
}

// Something cannot be shown: what, why, and ways on.
function complain(title, why, textToEdit = null) {
  const page = h("section", { class: "complaint" },
    h("h1", {}, title),
    h("p", { class: "why" }, why),
    h("p", { class: "actions" },
      h("a", { class: "button primary", href: "#/" }, t("backToCatalogue")),
      textToEdit !== null && source.live && button(t("edit"), () => show(makerPage(textToEdit)))));
  show(page);
  $("h1", page).tabIndex = -1;
  $("h1", page).focus();
}

// ---------------------------------------------------------------- files

function openFile() {
  const input = h("input", { type: "file", accept: ".scenario,.txt,.transcript,text/plain" });
  input.addEventListener("change", () => input.files[0] && readFile(input.files[0]));
  input.click();
}

async function readFile(file) {
  let content = null;
  if (file.size <= FILE_BYTES_MAX) {
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      content = null;
    }
  }
  if (content === null) return complain(t("cannotPlay"), t("notAFile"));
  location.hash = await playLink({ text: content });
}

function acceptDrops() {
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0] && source.live) readFile(event.dataTransfer.files[0]);
  });
}

// ---------------------------------------------------------------- keys

function onKey(event) {
  if (event.key === "Escape") {
    closePopover();
    return;
  }
  const typing = event.target.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") showHelp();
  else if (event.key === "h") location.hash = "#/";
  else if (!stage?.key(event)) return;
  event.preventDefault();
}

// ---------------------------------------------------------------- beginning

async function begin() {
  applyTheme(remembered("theme", "auto"));
  setWords(await source.words());
  setLanguage(remembered("language", navigator.language?.startsWith("zh") ? "zh" : "en"));
  drawBar();
  watchTerms();
  acceptDrops();
  addEventListener("keydown", onKey);
  addEventListener("hashchange", open);
  watchPython(drawSimulator);
  await open();
  source.opened?.();
}

// What tests ask instead of looking: where the page is, what it shows there, and Python itself.
window.lab = {
  ask: (question) => askPython(question),
  get stage() {
    return stage;
  },
  get python() {
    return python;
  },
  async open(fragment) {
    history.replaceState(null, "", fragment);
    await open();
  },
};

begin();
