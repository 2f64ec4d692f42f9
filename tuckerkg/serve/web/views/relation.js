// One relation: what it joins, examples, how well the model knows it, and its most believed missing links.
import { entityAt, reviewAt } from "../addresses.js";
import { link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { reliability } from "../parts/charts.js";
import { openList } from "../parts/missing.js";
import { Problem, get } from "../service.js";
import { many, METRICS, number, ofType, percent } from "../words.js";
import { KINDS } from "./relations.js";

export async function relationView({ parts: [label], signal, place }) {
  if (!label) throw new Problem(404, { detail: "There is no such page here." });
  const [about, found] = await Promise.all([get("/run", {}, signal), get("/relation", { relation: label }, signal)]);
  const { relation, figures } = found;
  const list = openList({ relation: relation.label, decided: "no", reasons: true }, about, signal, place);
  return [
    make("h1", {}, shown(relation.title, 120)),
    relation.title === relation.label ? null : soft(shown(relation.label)),
    make("p", { class: "lead" }, [many(relation.facts, "fact"), KINDS[relation.kind] ?? relation.kind,
      found.heads_type && found.tails_type ? `from ${shown(ofType(found.heads_type), 80)} to ${shown(ofType(found.tails_type), 80)}` : null].filter(Boolean).join(" · ")),
    make("section", { class: "listed" }, make("div", { class: "title-row" }, make("h2", {}, "What may be missing"), link("Review one by one", reviewAt({ relation: relation.label }), { class: "button" })), list.element),
    make("div", { class: "columns" },
      make("section", {}, make("h2", {}, "Examples"), make("ul", { class: "facts" }, ...found.examples.map((fact) =>
        make("li", {}, link(fact.head, entityAt(fact.head_label)), ` ${shown(fact.relation, 60)} `, link(fact.tail, entityAt(fact.tail_label)))))),
      make("section", {}, make("h2", {}, "How well the model knows it"),
        figures ? make("table", {}, make("tbody", {}, ...["mrr", "hits@1", "hits@10", "count"].filter((name) => figures[name] !== undefined && figures[name] !== null).map((name) =>
          make("tr", {}, make("th", { scope: "row", title: METRICS[name] ?? null }, name === "count" ? "hidden facts asked" : name.toUpperCase()), make("td", { class: "number" }, name === "count" ? number(figures[name]) : Number(figures[name]).toFixed(3))))))
          : soft("No hidden fact has this relation, so nothing was measured."),
        found.trust?.length ? [make("figure", {}, reliability(found.trust)), soft("Of the links of this relation with a probability, how many are among the hidden facts.")] : null,
        found.thresholds?.yes_from ? soft(`A link of this relation is called true from ${percent(found.thresholds.yes_from)}.`) : null)),
    copyAs("/relation", { query: { relation: relation.label } }),
  ];
}
