// The answers to a question, "France borders ?": probability, whether the graph knows, decisions, and when it makes no sense.
import { askAt, changed, compareAt, entityAt, graphAt, relationAt } from "../addresses.js";
import { button, link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { listOf, predictedRow } from "../parts/links.js";
import { Problem, get, recall } from "../service.js";
import { session } from "../session.js";
import { isWord, many, percent } from "../words.js";

const PAGE = 25, MOST = 1000;
const LEAST = 0.005;  // what would be shown as "< 1 %" is left out unless asked for

export async function answersView({ parts: [label, relation, place], options, signal, place: kept }) {
  if (!label || !relation || (place !== "head" && place !== "tail")) throw new Problem(404, { detail: "There is no such page here." });
  const [about, fit] = await Promise.all([get("/run", {}, signal), fitting(label, relation, place, signal)]);
  const name = fit.entity.title, said = fit.relation.title;
  const question = place === "head" ? `${shown(name, 80)} ${shown(said, 80)} ?` : `? ${shown(said, 80)} ${shown(name, 80)}`;
  const top = [
    make("h1", {}, question),
    make("p", { class: "trail" }, link(name, entityAt(fit.entity.label)), " · ", link(said, relationAt(fit.relation.label)), " · ", link("Canvas", graphAt(fit.entity.label)),
      ...(session.runs.length > 1 ? [" · ", link("Ask two runs", compareAt(label, relation, place))] : [])),
  ];
  if (!fit.fits && options.anyway !== "yes") return [...top, noSense(fit, place)];
  const known = options.known === "yes", typed = options.any !== "yes", all = options.all === "yes";
  const body = { [place]: label, relation, k: kept.k ?? PAGE, known, typed, joined: true };
  const holder = make("div", { class: "listed" });
  await fill(holder, body, { place, all, about, signal, kept });
  const toggle = (text, on, name_) => make("label", { class: "toggle" }, make("input", { type: "checkbox", checked: on, onchange: (event) => { location.hash = changed({ [name_]: event.target.checked }); } }), ` ${text}`);
  return [
    ...top,
    make("div", { class: "options" }, toggle("known facts too", known, "known"),
      toggle("entities of every type", !typed, "any")),
    known ? soft("A known fact can stand below a new one: the number is what the model would say had nobody told it. A low one says something about the model, not about the fact.") : null,
    holder,
    copyAs("/predict", { body, csv: true, name: "answers.csv" }),
  ];
}

async function fill(holder, body, given) {
  const { place, all, about, signal, kept } = given;
  const found = (await recall("POST", "/predict", body, signal)).answers;
  const answers = all ? found : found.filter((each) => each.known || each.probability >= LEAST), left = found.length - answers.length;
  const words = (answer) => (place === "head" ? [link(answer.tail, entityAt(answer.tail_label), { class: "name" })] : [link(answer.head, entityAt(answer.head_label), { class: "name" })]);
  const more = button("More", async () => {
    more.disabled = true;
    kept.k = Math.min(MOST, body.k + PAGE);
    await fill(holder, { ...body, k: kept.k }, given);
  });
  const taken = answers.some((each) => each.single && !each.known);
  const rows = answers.map((each) => predictedRow(each, signal, { words: words(each) }));
  const doubtful = answers.findIndex((each) => !each.known && each.probability < about.threshold);
  if (doubtful >= 0) rows.splice(doubtful, 0, make("li", { class: "divider soft" }, `${doubtful ? "From here on under" : "No answer reaches"} ${percent(about.threshold)}: what follows is wrong more often than not.`));
  holder.replaceChildren(
    ...(taken ? [soft("This relation has one value, and the graph holds one already: what follows would take its place.")] : []),
    ...(rows.length ? [listOf(rows, "Answers")] : [nothing(left)]),
    ...(left ? [make("p", {}, link(`Show ${many(left, "answer")} under 1 %`, changed({ all: true })))] : []),
    ...(found.length >= body.k && body.k < MOST && !left ? [more] : []));
}

const nothing = (left) => make("div", { class: "empty" }, make("p", { class: "lead" }, "Nothing to see here."),
  make("p", {}, left ? "No answer reaches 1 %." : "The graph holds every answer of a fitting type already."));

// Whether the entity is of a type that this question is asked of, told by the facts that the graph holds.
async function fitting(label, relation, place, signal) {
  const [asked, about] = await Promise.all([recall("GET", "/suggestions", { entity: label }, signal), recall("GET", "/relation", { relation }, signal)]);
  const found = about.relation;
  const fits = asked.suggestions.some((each) => each.relation_label === found.label && each.place === place);
  const such = [...new Set(about.examples.map((fact) => (place === "head" ? fact.head : fact.tail)))].slice(0, 3);
  return {
    such, entity: asked.entity, relation: found, fits, asked: asked.suggestions,
    own: place === "head" ? about.heads_type : about.tails_type, other: place === "head" ? about.tails_type : about.heads_type,
  };
}

const article = (word) => (/^[aeiou]/i.test(word) ? "an" : "a");

function noSense(fit, place) {
  const { entity, relation, own } = fit;
  const named = isWord(own);
  const first = named ? `${shown(entity.title, 60)} is no ${shown(own)}.` : `${shown(entity.title, 60)} is nothing that stands there.`;
  const kind = named ? `${article(own)} ${shown(own)}` : `entities such as ${fit.such.map((each) => shown(each, 40)).join(", ")}`;
  const where = `${place === "head" ? "begins with" : "leads to"} ${kind}`;
  const others = fit.asked.slice(0, 8);
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, first),
    make("p", {}, `In this graph “${shown(relation.title, 60)}” ${where}, so nothing of its type is asked.`),
    others.length ? make("p", {}, "What can be asked of it:") : null,
    make("ul", { class: "chips" }, ...others.map((each) => make("li", {}, link(
      each.place === "head" ? `${shown(entity.title, 40)} ${shown(each.relation, 50)} ?` : `? ${shown(each.relation, 50)} ${shown(entity.title, 40)}`,
      askAt(entity.label, each.relation_label, each.place))))),
    make("p", {}, link("Ask all the same", changed({ anyway: true }))));
}
