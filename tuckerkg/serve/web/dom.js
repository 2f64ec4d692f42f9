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
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Characters that turn or hide text are shown as what they are, and names of any length stay readable.
export function shown(text, longest = 300) {
  const plain = Array.from(String(text), (c) =>
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(c)
      ? "\\u" + c.codePointAt(0).toString(16).padStart(4, "0")
      : c,
  ).join("");
  return plain.length > longest ? plain.slice(0, longest - 1) + "…" : plain;
}

export const percent = (value) =>
  value >= 0.995 ? "> 99 %" : value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`;
