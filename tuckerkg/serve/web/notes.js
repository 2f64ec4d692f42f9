// Short messages in a corner, which screen readers hear once, and the line that only they hear.
import { button, make, shown } from "./dom.js";

const place = () => document.getElementById("notes");

export function say(text) {
  document.getElementById("status").textContent = shown(text, 400);
}

// ``key``: a newer note of the same key takes its place; ``action``: [word, function].
export function note(text, { bad = false, action = null, key = null, stays = false } = {}) {
  if (key) place().querySelectorAll("[data-key]").forEach((one) => one.dataset.key === key && one.remove());
  const one = make("div", { class: bad ? "note bad" : "note", "data-key": key }, make("span", {}, shown(text, 400)));
  const end = () => one.remove();
  if (action) one.append(button(action[0], () => { end(); action[1](); }));
  one.append(button("×", end, { class: "quiet", "aria-label": "Close this message" }));
  place().append(one);
  say(text);
  if (!stays && !bad) setTimeout(end, 8_000);
  while (place().children.length > 4) place().firstChild.remove();
  return end;
}
