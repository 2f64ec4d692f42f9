// An entity as a panel: what is known of it, what is predicted beside that, what is near, what may be asked.
import { askAt, entityAt, graphAt, mapAt, relationAt, reviewAt } from "../addresses.js";
import { decisionButtons, onDecision } from "../decide.js";
import { button, link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { badge, questionLink } from "../parts/links.js";
import { Problem, get, recall } from "../service.js";
import { CHOICES, many, number, percent, sentence } from "../words.js";
import { whyAt } from "../addresses.js";

const AT_ONCE = 8, QUESTIONS = 32, PREDICTED = 3;
const WEAK = 0.1;  // under it nothing is shown; what lies under the threshold of the run is pale

export async function entityView({ parts: [label], signal, place }) {
  if (!label) throw new Problem(404, { detail: "There is no such page here." });
  const [about, found, asked] = await Promise.all([get("/run", {}, signal), recall("GET", "/entity", { entity: label }, signal), recall("GET", "/suggestions", { entity: label }, signal)]);
  const { entity } = found, rows = rowsOf(found.groups, asked.suggestions);
  const body = make("tbody", {}, ...rows.map((row) => lineOf(row, entity, signal, place)));
  const questions = make("ul", { class: "chips" });
  const nearest = make("div", {}, soft("Looking for them …"));
  showNearest(nearest, entity, signal);
  predict(rows, entity, about, questions, signal).catch((error) => error.name === "AbortError" || questions.replaceChildren(make("li", {}, shown(error.message))));
  return [
    make("div", { class: "title-row" }, make("h1", {}, shown(entity.title)), link("Canvas", graphAt(entity.label), { class: "button main" }), link("Review its links", reviewAt({ entity: entity.label }), { class: "button" })),
    make("p", { class: "trail" }, ...[entity.type && badge(shown(entity.type, 80), "type"), entity.title === entity.label ? null : ` ${shown(entity.label, 200)}`, ` ${many(found.total, "fact")}`].filter(Boolean)),
    found.description ? make("p", { class: "lead" }, shown(found.description, 600)) : null,
    make("div", { class: "panel" },
      make("section", { class: "facts-of" }, make("h2", {}, "Known, and predicted beside it"),
        rows.length ? make("div", { class: "table" }, make("table", { class: "groups" }, make("thead", {}, make("tr", {}, ...["relation", "known", "predicted"].map((name) => make("th", { scope: "col" }, name)))), body))
          : soft("The graph holds no fact about it.")),
      make("aside", { class: "beside", "aria-label": `About ${shown(entity.title, 60)}` },
        make("section", {}, make("h2", {}, "Worth asking"), questions),
        make("section", {}, make("h2", {}, "Nearest"), nearest))),
    copyAs("/facts", { query: { entity: entity.label, limit: 1000 }, csv: true, name: "facts.csv" }),
  ];
}

// A row per relation and direction: those with facts first, then those that make sense for such an entity.
function rowsOf(groups, suggestions) {
  const rows = groups.map((group) => ({ ...group, label: group.relation.label, title: group.relation.title }));
  const held = new Set(rows.map((row) => `${row.place} ${row.label}`));
  for (const each of suggestions) {
    if (!held.has(`${each.place} ${each.relation_label}`)) rows.push({ label: each.relation_label, title: each.relation, place: each.place, known: each.known, single: each.single, facts: [] });
  }
  return rows;
}

function lineOf(row, entity, signal, place) {
  const names = make("ul", { class: "names" }), more = make("span", {});
  const add = (facts) => names.append(...facts.map((fact) => make("li", {}, link(row.place === "head" ? fact.tail : fact.head, entityAt(row.place === "head" ? fact.tail_label : fact.head_label)),
    link("why?", whyAt(fact), { class: "why", "aria-label": `Why: ${sentence(fact, 60)}` }))));
  add(row.facts);
  const key = `more ${row.place} ${row.label}`;
  const load = async (limit) => {
    const next = await get("/facts", { entity: entity.label, relation: row.label, place: row.place, limit, offset: names.children.length }, signal);
    add(next.facts);
    place[key] = names.children.length;
    showMore();
  };
  const showMore = () => more.replaceChildren(...(names.children.length < row.known ? [button(`${number(row.known - names.children.length)} more`, () => load(50), { class: "link" })] : []));
  showMore();
  if (place[key] > names.children.length) load(place[key] - names.children.length).catch(() => {});
  row.cell = make("td", { class: "predicted" }, soft("…"));
  row.line = make("tr", { hidden: !row.known },
    make("th", { scope: "row", title: row.place === "head" ? null : "facts that lead here" }, row.place === "head" ? null : make("span", { class: "soft", role: "img", "aria-label": "leading here: " }, "← "), link(row.title, relationAt(row.label)),
      row.place === "head" ? make("span", { class: "soft", "aria-hidden": "true" }, " →") : null, make("span", { class: "count" }, ` ${number(row.known)}`)),
    make("td", {}, names, more), row.cell);
  return row.line;
}

// Asks in small batches, so that what is seen first fills first.
async function predict(rows, entity, about, questions, signal) {
  const asked = rows.slice(0, QUESTIONS), worth = [];
  for (let from = 0; from < asked.length; from += AT_ONCE) {
    const part = asked.slice(from, from + AT_ONCE);
    const { results } = await recall("POST", "/predict/batch", { questions: part.map((row) => ({ [row.place]: entity.label, relation: row.label, k: PREDICTED, joined: true })) }, signal);
    part.forEach((row, at) => {
      const good = (results[at].answers ?? []).filter((answer) => !answer.known && answer.probability >= Math.min(WEAK, about.threshold));
      row.cell.replaceChildren(good.length ? make("ul", { class: "names guessed" }, ...good.map((answer) => guessed(answer, row, about, signal))) : soft("–"));
      if (good.length) row.line.hidden = false;
      worth.push({ row, best: good[0]?.probability ?? 0, taken: row.single && row.known > 0 });
    });
    showQuestions(questions, worth, entity);
  }
  for (const row of rows.slice(QUESTIONS)) row.cell.replaceChildren(link("ask", askAt(entity.label, row.label, row.place)));
  if (!rows.length) questions.replaceChildren(make("li", { class: "soft" }, "No relation has been seen with an entity like this."));
}

// Those that are open and have a good answer come first; those that have their one value last.
function showQuestions(place, worth, entity) {
  const sorted = [...worth].sort((a, b) => a.taken - b.taken || b.best - a.best);
  const chip = ({ row, best, taken }) => make("li", { class: taken ? "taken" : null }, questionLink(entity.title, row.title, row.place, askAt(entity.label, row.label, row.place)),
    make("span", { class: "soft" }, taken ? " has its value" : best ? ` ${percent(best)}` : ""));
  const [first, rest] = [sorted.slice(0, 8), sorted.slice(8)];
  place.replaceChildren(...first.map(chip), ...(rest.length ? [make("li", { class: "rest" }, make("details", {}, make("summary", {}, many(rest.length, "more question")), make("ul", { class: "chips" }, ...rest.map(chip))))] : []));
}

function guessed(answer, row, about, signal) {
  const [name, at] = row.place === "head" ? [answer.tail, answer.tail_label] : [answer.head, answer.head_label];
  const one = make("li", { class: [answer.decision ? `is-${answer.decision}` : "", answer.probability < about.threshold ? "weak" : ""].join(" ").trim() || null },
    make("span", { class: "guess" }, link(name, entityAt(at)), " ", answer.single ? badge("has a value already", "is-taken") : null), make("span", { class: "percent" }, percent(answer.probability)),
    decisionButtons(answer, signal), link("why?", whyAt(answer), { class: "why", "aria-label": `Why: ${sentence(answer, 60)}` }));
  onDecision(answer, signal, (decision) => { for (const choice of Object.keys(CHOICES)) one.classList.toggle(`is-${choice}`, decision?.choice === choice); });
  return one;
}

async function showNearest(place, entity, signal) {
  try {
    const found = await recall("GET", "/nearest", { entity: entity.label, limit: 8 }, signal);
    place.replaceChildren(found.entities.length ? make("ol", { class: "plain" }, ...found.entities.map((each) => make("li", {}, link(each.title, entityAt(each.label)), make("span", { class: "soft" }, ` ${each.similarity.toFixed(2)}`)))) : soft("There is none."),
      ...(found.by === "embedding" ? [soft("By the cosine of their embeddings. ", link("On the map", mapAt(entity.label)))] : [soft("By the share of neighbours that they have in common.")]));
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(soft(shown(error.message)));
  }
}
