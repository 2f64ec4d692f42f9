// Why a link is believed: the paths in words, a picture, what is left without an edge, and the next best answer.
import { askAt, entityAt, graphAt, relationAt, whyAt } from "../addresses.js";
import { decisionButtons } from "../decide.js";
import { link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { badgesOf, probabilityBar } from "../parts/links.js";
import { picture } from "../parts/picture.js";
import { counting, skeleton } from "../parts/waiting.js";
import { Problem, recall } from "../service.js";
import { number, percent, sentence } from "../words.js";

export async function whyView({ parts: [head, relation, tail], signal, open }) {
  if (!head || !relation || !tail) throw new Problem(404, { detail: "There is no such page here." });
  const wait = counting("Taking edges out and asking again …", signal);
  const slow = setTimeout(() => open([make("h1", {}, `${shown(head, 80)} ${shown(relation, 80)} ${shown(tail, 80)}`), wait.element, ...skeleton(5)]), 250);
  const body = { head, relation, tail, k: 5 };
  let found;
  try {
    const answer = await recall("POST", "/explain", body, signal);
    found = { ...answer.fact, ...answer };
  } finally {
    clearTimeout(slow);
    wait.stop();
  }
  const paths = merged(found.paths), room = document.getElementById("view").clientWidth;
  return [
    make("h1", {}, link(found.head, entityAt(found.head_label)), " ", link(found.relation, relationAt(found.relation_label)), " ", link(found.tail, entityAt(found.tail_label))),
    make("div", { class: "verdict" }, probabilityBar(found.probability), ...badgesOf(found), found.known ? null : decisionButtons(found, signal),
      make("span", { class: "soft" }, `place ${number(found.standing.rank)} among ${number(found.candidates)} entities`)),
    rivalOf(found),
    make("section", {}, make("h2", {}, "Paths from one to the other"),
      paths.length ? make("ol", { class: "paths" }, ...paths.map((path) => make("li", {}, ...pathWords(path), make("div", { class: "soft" }, pathWeight(path, found)))))
        : make("p", {}, "No short path joins the two.")),
    make("section", {}, make("h2", {}, "As a picture"), picture({ ...found, paths }, room)),
    make("section", {}, make("h2", {}, "What is left without an edge"), ...edgesOf(found)),
    make("p", { class: "trail" }, link(`${shown(found.head, 40)} on the canvas`, graphAt(found.head_label)), " · ",
      link(`All answers to “${shown(found.head, 40)} ${shown(found.relation, 40)} ?”`, askAt(found.head_label, found.relation_label, "head"))),
    copyAs("/explain", { body }),
  ];
}

// Paths through the same entities by the same relations, some edges turned round, are one: their shares add up.
function merged(paths) {
  const found = new Map();
  for (const path of paths) {
    const key = JSON.stringify(path.steps.map((step) => [step.from_label, step.relation_label, step.to_label])), known = found.get(key);
    if (!known) found.set(key, { ...path, ways: 1 });
    else Object.assign(known, { ways: known.ways + 1, share: known.share === null ? null : known.share + path.share });
  }
  return [...found.values()];
}

function rivalOf(found) {
  const rival = found.rival;
  if (!rival) return null;
  const name = rival.tail_label === found.tail_label ? rival.head : rival.tail;  // the place where the two differ
  const words = found.probability > rival.probability ? "Next best answer" : "An answer that stands above it";
  return make("p", { class: "rival" }, `${words}: `, link(name, whyAt(rival)), ` ${percent(rival.probability)}`);
}

function pathWords(path) {
  const words = [link(path.steps[0].from, entityAt(path.steps[0].from_label))];
  for (const step of path.steps) {
    words.push(make("span", { class: "step" }, step.forwards ? ` —${shown(step.relation, 60)}→ ` : ` ←${shown(step.relation, 60)}— `), link(step.to, entityAt(step.to_label)));
  }
  return words;
}

function pathWeight(path, found) {
  const words = [];
  if (path.share !== null && path.share !== undefined) words.push(`${Math.round(100 * path.share)} % of the score came along it`);
  if (path.confidence !== null && path.confidence !== undefined) {
    words.push(`of ${number(path.walks)} paths of this kind, ${percent(path.confidence)} end where “${shown(found.relation, 60)}” is true`);
  }
  if (path.ways > 1) words.push("both ways round");
  return words.join("; ");
}

function edgesOf(found) {
  if (!found.edges.length) {
    return [make("p", {}, found.uses_messages === false ? "This model reads no edges when it is asked: what it knows is in its vectors alone." : "No edge of the graph matters to it.")];
  }
  const lines = found.edges.map((edge) => make("li", {}, link(sentence(edge), whyAt(edge)), make("div", { class: "soft" }, without(found.standing, edge.standing))));
  return [make("ol", {}, ...lines), found.edges.length > 1 && found.without_all ? soft(`Without all of them: ${without(found.standing, found.without_all)}`) : null];
}

// A share is the part of the model's belief that goes to this answer among all entities.
function without(before, after) {
  const left = Math.exp(after.log_share - before.log_share), place = after.rank === before.rank ? `it stays at place ${number(after.rank)}`
    : `it ${after.rank > before.rank ? "falls" : "rises"} from place ${number(before.rank)} to ${number(after.rank)}`;
  const belief = left > 0.97 && left < 1.03 ? "as much believed as before" : left < 1 ? `believed ${times(1 / left)} less` : `believed ${times(left)} more`;
  return `without it ${place}, ${belief}`.replace("without it ", "");
}

const times = (factor) => (factor < 1.95 ? `${Math.round(100 * (factor - 1))} %` : factor > 1000 ? "over a thousand times" : `${factor < 10 ? Math.round(10 * factor) / 10 : Math.round(factor)} times`);
