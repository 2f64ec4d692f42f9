// Filters of a list of links: relation, type, entity, probability. They stand in the address, so that a list can be shared.
import { changed } from "../addresses.js";
import { make, shown } from "../dom.js";
import { get } from "../service.js";
import { percent } from "../words.js";

let ids = 0;

function labelled(text, field) {
  field.id = `filter-${++ids}`;
  return make("div", { class: "filter" }, make("label", { for: field.id }, text), field);
}

export function choice(text, value, options, changedTo) {
  const known = options.some(([key]) => key === (value ?? ""));
  const all = known || !value ? options : [...options, [value, value]];
  const field = make("select", { onchange: () => changedTo(field.value || null) },
    ...all.map(([key, words]) => make("option", { value: key, selected: key === (value ?? "") }, shown(words, 60))));
  return labelled(text, field);
}

export function wordField(text, value, changedTo, placeholder = "") {
  const field = make("input", { type: "search", value: value ?? "", placeholder, spellcheck: "false", onchange: () => changedTo(field.value.trim() || null) });
  return labelled(text, field);
}

export function threshold(value, least, changedTo) {
  const start = Number(value ?? least) || 0;
  const said = make("output", {}, percent(start));
  const field = make("input", { type: "range", min: 0, max: 0.95, step: 0.05, value: Math.round(20 * start) / 20, "aria-valuetext": percent(start) });
  field.addEventListener("input", () => {
    said.textContent = percent(Number(field.value));
    field.setAttribute("aria-valuetext", percent(Number(field.value)));
  });
  field.addEventListener("change", () => changedTo(field.value));
  const all = labelled("Probability at least", field);
  all.classList.add("range");
  all.append(said);
  return all;
}

export const setOptions = (options) => { location.hash = changed(options); };

// The filters that the open list and the review queue share.
export async function filtersOfMissing(options, about, signal, more = []) {
  const { relations } = await get("/relations", { limit: 500 }, signal);
  const types = typesOf(relations);
  return make("form", { class: "filters", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
    choice("Relation", options.relation, [["", "all"], ...relations.map((each) => [each.label, each.title])], (relation) => setOptions({ relation })),
    types.length ? choice("Type", options.type, [["", "all"], ...types.map((type) => [type, type])], (type) => setOptions({ type })) : null,
    wordField("Entity", options.entity, (entity) => setOptions({ entity }), "its name"),
    threshold(options.at_least, about.threshold, (at_least) => setOptions({ at_least })),
    ...more);
}

function typesOf(relations) {
  const found = new Set(relations.flatMap((each) => [each.heads_type, each.tails_type]).filter(Boolean));
  return [...found].sort();
}
