// Elements without HTML strings: every text of the graph is a text node, never markup.

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

// Characters that turn or hide text are shown as what they are, and names of any length stay readable.
export function shown(text, longest = 300) {
  const written = (c) => (HIDDEN.test(c) ? "\\u" + c.codePointAt(0).toString(16).padStart(4, "0") : c);
  const plain = Array.from(String(text).slice(0, 4 * longest), written).join("");
  return plain.length > longest ? plain.slice(0, longest - 1) + "…" : plain;
}

export function link(text, href, attributes = {}) {
  return make("a", { href, ...attributes }, shown(text, 200));
}

export function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

export function soft(...children) {
  return make("p", { class: "soft" }, ...children);
}

// A width that depends on data: style attributes are refused by the page's policy, the property is not.
export function wide(element, share) {
  element.style.width = `${Math.max(0, Math.min(100, 100 * share)).toFixed(1)}%`;
  return element;
}
