// The field at the top: entities by near names, relations, and whole questions such as "France borders ?".
import { askAt, entityAt, relationAt } from "./addresses.js";
import { make, shown } from "./dom.js";
import { say } from "./notes.js";
import { get } from "./service.js";
import { many } from "./words.js";

const query = document.getElementById("query"), matches = document.getElementById("matches");
let typing = new AbortController(), chosen = -1, waiting = 0;

const options = () => [...matches.querySelectorAll('[role="option"]')];

async function search() {
  typing.abort();
  typing = new AbortController();
  const { signal } = typing, text = query.value.trim();
  if (!text) return close();
  try {
    const found = await get("/complete", { q: text, limit: 8 }, signal);
    if (signal.aborted || document.activeElement !== query) return null;
    list(found, text);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  }
  return null;
}

// A question comes first where more than a name has been typed.
function list(found, text) {
  const asks = found.questions.filter((each) => text.endsWith("?") || text.length > each.entity.title.length);
  const items = [
    ...asks.map(question),
    ...found.entities.map((each) => item("entity", shown(each.title, 80), kindOf(each), entityAt(each.label))),
    ...found.questions.filter((each) => !asks.includes(each)).map(question),
    ...found.relations.map((each) => item("relation", shown(each.title, 80), `relation, ${many(each.facts, "fact")}`, relationAt(each.label))),
  ];
  items.forEach((one, place) => { one.id = `match-${place}`; });
  const near = found.near && items.length ? [make("li", { class: "soft", role: "presentation" }, "Nothing is called that. Did you mean:")] : [];
  const none = make("li", { class: "soft", role: "presentation" }, "Nothing here is called that, or nearly that.");
  matches.replaceChildren(...near, ...(items.length ? items : [none]));
  matches.hidden = false;
  query.setAttribute("aria-expanded", "true");
  chosen = -1;
  say(items.length ? many(items.length, "match", "matches") : "no match");
}

const question = (each) => item("ask", shown(each.text, 90), "question", askAt(each.entity.label, each.relation.label, each.place));

function kindOf(entity) {
  const own = entity.label === entity.title ? null : shown(entity.label, 40);
  return [entity.type && shown(entity.type, 50), own, many(entity.facts, "fact")].filter(Boolean).join(" · ");
}

function item(kind, text, words, href) {
  const one = make("li", { role: "option", class: kind, "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); open(one); } },
    make("span", {}, text), make("span", { class: "soft" }, ` ${words}`));
  one.dataset.href = href;
  return one;
}

function close() {
  clearTimeout(waiting);
  typing.abort();
  matches.hidden = true;
  query.setAttribute("aria-expanded", "false");
  query.removeAttribute("aria-activedescendant");
  chosen = -1;
  return null;
}

function open(one) {
  close();
  query.value = "";
  query.blur();
  location.hash = one.dataset.href;
}

function choose(step) {
  const items = options();
  if (!items.length) return;
  chosen = chosen < 0 && step < 0 ? items.length - 1 : (chosen + step + items.length) % items.length;
  items.forEach((one, place) => one.setAttribute("aria-selected", String(place === chosen)));
  query.setAttribute("aria-activedescendant", items[chosen].id);
  items[chosen].scrollIntoView({ block: "nearest" });
}

export function startSearch() {
  query.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      matches.hidden ? query.blur() : close();
    }
  });
  query.addEventListener("blur", close);
  window.addEventListener("hashchange", close);
  document.getElementById("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    if (matches.hidden || chosen < 0) await search();
    const one = options()[Math.max(chosen, 0)];
    if (one) open(one);
  });
}
