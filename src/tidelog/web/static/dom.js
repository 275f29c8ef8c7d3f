// Making and changing elements. Children may be nodes, texts, lists of them, or nothing.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

const ABSENT = new Set([null, undefined, false]);
const present = (children) => children.flat(Infinity).filter((child) => !ABSENT.has(child));

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...present(children));
  return element;
}

// A button, by default one that looks like one.
export function button(words, onclick, attributes = {}) {
  return h("button", { type: "button", class: "button", onclick, ...attributes }, words);
}

// An attribute, or with "on…" a listener. Null and false take an attribute away.
export function set(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
  return element;
}

export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

// About how wide a small label is: Chinese characters are square.
export const widthOf = (words) => [...words].reduce((sum, letter) => sum + (letter > "\u2e7f" ? 11.5 : 6.3), 0);

export const $ = (selector, within = document) => within.querySelector(selector);

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
