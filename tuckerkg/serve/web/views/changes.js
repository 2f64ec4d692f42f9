// What changed between two versions of a run: facts that came, and answers that moved.
import { make, soft } from "../dom.js";
import { choice, setOptions } from "../parts/filters.js";
import { copyAs, factColumns } from "../parts/copying.js";
import { factWords } from "../parts/links.js";
import { get } from "../service.js";
import { presentRun } from "../session.js";
import { many, percent } from "../words.js";

export async function changesView({ options, signal }) {
  const now = presentRun();
  if (now.version < 2) return [make("h1", {}, "What changed"), make("p", {}, "This run has one version. Accepted links that are added to the graph make the next one.")];
  const found = await get("/changes", { from: options.from ?? now.version - 1 }, signal);
  const versions = Array.from({ length: found.to - 1 }, (_, at) => [String(at + 1), `version ${at + 1}`]);
  const answers = found.answers.map((each) => ({ ...(each.fact ?? each), before: each.before }));
  return [
    make("h1", {}, `What changed: version ${found.from} to ${found.to}`),
    versions.length > 1 ? make("div", { class: "filters" }, choice("Since", String(found.from), versions, (from) => setOptions({ from }))) : null,
    make("p", { class: "lead" }, `${many(found.added_total ?? found.added.length, "fact")} came${found.entities_added.length ? `, with ${many(found.entities_added.length, "new entity", "new entities")}` : ""}.`),
    make("section", {}, make("h2", {}, "Facts that came"), make("ul", { class: "facts" }, ...found.added.map((fact) => make("li", {}, ...factWords(fact))))),
    make("section", {}, make("h2", {}, "Answers that moved"), answers.length
      ? make("div", { class: "table" }, make("table", { class: "wide" }, make("thead", {}, make("tr", {}, ...["link", "before", "now"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...answers.map((each) => make("tr", {}, make("td", {}, ...factWords(each)), make("td", { class: "number" }, percent(each.before)), make("td", { class: `number ${each.probability > each.before ? "up" : "down"}` }, percent(each.probability)))))))
      : soft("No answer of note moved.")),
    copyAs("/changes", { query: { from: found.from }, csv: () => [[...factColumns], ...found.added.map((fact) => factColumns.map((name) => fact[name]))], name: "changes.csv" }),

  ];
}
