// The canvas in words: its entities and links as lists, with the same things to do.
import { entityAt } from "../addresses.js";
import { decisionButtons } from "../decide.js";
import { button, link, make, shown } from "../dom.js";
import { many, percent, sentence } from "../words.js";

export function listing(drawing, act, signal) {
  const nodes = drawing.cy.nodes().map((node) => node.data("entity")), edges = drawing.cy.edges(":visible").map((edge) => edge);
  const [known, predicted] = [edges.filter((edge) => !edge.hasClass("predicted")), edges.filter((edge) => edge.hasClass("predicted"))];
  const entities = make("ul", {}, ...nodes.map((each) => make("li", {}, link(each.title, entityAt(each.label)), " ", button("expand", () => act.expand(each.label), { class: "link", "aria-label": `Expand ${shown(each.title, 60)}` }))));
  const guesses = predicted.map((edge) => edge.data("fact")).sort((a, b) => b.probability - a.probability);
  return [
    make("h3", {}, many(predicted.length, "predicted link")), make("ul", {}, ...guesses.map((fact) => make("li", {}, `${sentence(fact)}, ${percent(fact.probability)} `, decisionButtons(fact, signal)))),
    make("h3", {}, many(nodes.length, "entity", "entities")), entities,
    make("h3", {}, many(known.length, "known link")), make("ul", {}, ...known.map((edge) => make("li", {}, sentence(edge.data("fact"))))),
  ];
}
