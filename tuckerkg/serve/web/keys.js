// Keys: those of the whole page, those of the view that is open, and the list of them under "?".
import { button, make } from "./dom.js";

const PAGE = { "/": ["search", () => document.getElementById("query").focus()], "?": ["this list", help] };
let view = {};

// ``keys``: {key: [what it does, function(event)]}; a letter stands for itself in either case.
export function keysOfView(keys, signal) {
  view = keys;
  signal?.addEventListener("abort", () => { if (view === keys) view = {}; }, { once: true });
}

const NAMES = { " ": "Space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };

function help() {
  const dialog = make("dialog", { "aria-labelledby": "keys-title", class: "keys" });
  const rows = [...Object.entries(view), ...Object.entries(PAGE)].map(([key, [what]]) =>
    make("tr", {}, make("td", {}, make("kbd", {}, NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key))), make("td", {}, what)));
  dialog.append(make("h2", { id: "keys-title" }, "Keys of this page"), make("table", {}, make("tbody", {}, ...rows)),
    make("p", { class: "buttons" }, button("Close", () => dialog.close(), { class: "main" })));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export const showKeys = help;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  const at = event.target, typed = at.matches?.("input:not([type=checkbox]):not([type=range]), textarea, select");
  if (typed) return;
  if ((event.key === "Enter" || event.key === " ") && at.matches?.("button, a, summary, input")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const found = view[key] ?? PAGE[key];
  if (!found) return;
  event.preventDefault();
  found[1](event);
});
