// Links of the graph, known and predicted, one to a line: names that lead on, probability, decisions, the way to why.
import { askAt, entityAt, relationAt, whyAt } from "../addresses.js";
import { decisionButtons, onDecision } from "../decide.js";
import { link, make, shown, wide } from "../dom.js";
import { may } from "../session.js";
import { ago, CHOICES, percent, sentence } from "../words.js";

export function probabilityBar(value) {
  const words = percent(value);
  return make("span", { class: "probability", title: "how probable it is that the link is true" },
    make("span", { class: "bar", "aria-hidden": "true" }, wide(make("span"), value)), make("span", { class: "percent" }, words));
}

export const factWords = (fact) => [
  link(fact.head, entityAt(fact.head_label), { class: "name" }), " ",
  link(fact.relation, relationAt(fact.relation_label), { class: "relation" }), " ",
  link(fact.tail, entityAt(fact.tail_label), { class: "name" }),
];

export const badge = (text, kind, title = null) => make("span", { class: `badge ${kind}`, title }, text);

export function badgesOf(answer) {
  return [
    answer.known ? badge("known", "is-known", "the graph holds this fact already") : null,
    !answer.known && answer.single ? badge("has a value already", "is-taken", "this relation has one value, and the graph holds another one") : null,
  ].filter(Boolean);
}

// ``words``: what stands for the fact; ``select``: a box to choose it; ``tick``: whether it turned out true.
export function predictedRow(answer, signal, { words = factWords(answer), select = null, reason = null, tick = null, decides = true } = {}) {
  const said = make("span", { class: "decided soft" });
  const row = make("li", { class: "link" },
    select,
    tick === null ? null : make("span", { class: tick ? "tick yes" : "tick no", role: "img", "aria-label": tick ? "true: it is among the hidden facts" : "not among the hidden facts" }, tick ? "✓" : "–"),
    make("span", { class: "fact" }, ...words, " ", ...badgesOf(answer), said),
    probabilityBar(answer.probability),
    decides && may("decide") ? (answer.known ? make("span", { class: "marks" }) : decisionButtons(answer, signal)) : null,
    link("why?", whyAt(answer), { class: "why", "aria-label": `Why: ${sentence(answer, 60)}` }),
    reason ? make("span", { class: "reason soft" }, shown(reason, 240)) : null);
  const mark = (decision) => {
    for (const choice of Object.keys(CHOICES)) row.classList.toggle(`is-${choice}`, decision?.choice === choice);
    said.textContent = decision ? ` ${CHOICES[decision.choice]?.[1] ?? decision.choice}${decision.by ? ` by ${shown(decision.by, 40)}, ${ago(decision.at)}` : ""}` : "";
  };
  if (answer.decision) mark({ choice: answer.decision });
  onDecision(answer, signal, mark);
  return row;
}

export const listOf = (rows, label) => make("ul", { class: "links", "aria-label": label }, ...rows);

// A question as a link: "France borders ?" or "? borders France".
export function questionLink(title, relation, place, href) {
  return link(place === "head" ? `${shown(title, 40)} ${shown(relation, 50)} ?` : `? ${shown(relation, 50)} ${shown(title, 40)}`, href);
}

export const questionAt = (label, suggestion) => askAt(label, suggestion.relation_label, suggestion.place);
