// All relations: how many facts, of what kind, between which types.
import { relationAt } from "../addresses.js";
import { button, link, make, shown } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { get } from "../service.js";
import { many, number, ofType } from "../words.js";

export const KINDS = { "1-1": "one to one", "1-N": "one to many", "N-1": "many to one", "N-N": "many to many" };
const PAGE = 100;

export async function relationsView({ signal, place }) {
  const first = await get("/relations", { limit: Math.max(PAGE, place.rows ?? 0) }, signal);
  const body = make("tbody", {}, ...first.relations.map(row));
  let from = first.next;
  const more = button("More", async () => {
    const next = await get("/relations", { limit: PAGE, offset: from }, signal);
    body.append(...next.relations.map(row));
    from = next.next;
    place.rows = body.children.length;
    more.hidden = from === null;
  });
  more.hidden = from === null || from === undefined;
  return [
    make("h1", {}, "Relations"),
    make("p", { class: "soft" }, many(first.total, "relation")),
    make("div", { class: "table" }, make("table", { class: "wide stacked" }, make("thead", {}, make("tr", {},
      make("th", { scope: "col" }, "relation"), make("th", { scope: "col" }, "from"), make("th", { scope: "col" }, "to"),
      make("th", { scope: "col" }, "kind"), make("th", { scope: "col", class: "number" }, "facts"))), body)),
    more,
    copyAs("/relations", { csv: () => [["label", "title", "facts", "kind"], ...first.relations.map((each) => [each.label, each.title, each.facts, each.kind])], name: "relations.csv" }),
  ];
}

const typed = (type) => (type ? shown(ofType(type), 80) : "");

const row = (each) => make("tr", {},
  make("th", { scope: "row" }, link(each.title, relationAt(each.label))), make("td", { "data-of": "from" }, typed(each.heads_type)), make("td", { "data-of": "to" }, typed(each.tails_type)),
  make("td", { class: "short", title: each.kind }, KINDS[each.kind] ?? each.kind), make("td", { class: "number", "data-of": "facts" }, number(each.facts)));
