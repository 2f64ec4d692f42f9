// One question to two runs, side by side.
import { askAt, changed } from "../addresses.js";
import { link, make, shown, soft } from "../dom.js";
import { choice } from "../parts/filters.js";
import { copyAs } from "../parts/copying.js";
import { probabilityBar } from "../parts/links.js";
import { Problem, post } from "../service.js";
import { session, titleOf } from "../session.js";

export async function compareView({ parts: [label, relation, place], options, signal }) {
  if (!label || !relation || (place !== "head" && place !== "tail")) throw new Problem(404, { detail: "There is no such page here." });
  const ready = session.runs.filter((run) => run.state === "ready");
  const one = ready.find((run) => run.name === options.one) ?? ready.find((run) => run.default) ?? ready[0];
  const other = ready.find((run) => run.name === options.other) ?? ready.find((run) => run !== one);
  if (!other) return [make("h1", {}, "Two runs side by side"), make("p", {}, "This service has one run. Start it with several, or train another on the page “Runs”.")];
  const body = { [place]: label, relation, k: 15, joined: true };
  const both = await Promise.all([one, other].map((run) => answersOf(run, body, signal)));
  const names = both.map((found) => new Map((found.answers ?? []).map((answer, at) => [place === "head" ? answer.tail_label : answer.head_label, { at, answer }])));
  const first = both.flatMap((found) => found.answers ?? [])[0];
  const words = [first?.[place] ?? label, first?.relation ?? relation].map((text) => shown(text, 80));
  const pick = (name, present) => choice(name === "one" ? "Left" : "Right", present.name, ready.map((run) => [run.name, titleOf(run)]), (run) => { location.hash = changed({ one: one.name, other: other.name, [name]: run }); });
  const column = (run, found, elsewhere) => make("section", { "aria-label": shown(run.name) }, make("h2", {}, shown(titleOf(run), 60), make("span", { class: "soft" }, ` version ${run.version}`)),
    found.problem ? make("p", { class: "bad" }, shown(found.problem)) : make("ol", { class: "answers-beside" }, ...found.answers.map((answer, at) => {
      const key = place === "head" ? answer.tail_label : answer.head_label, there = elsewhere.get(key);
      const moved = !elsewhere.size ? "" : there === undefined ? "only here" : there.at === at ? "same place" : `${there.at + 1}. there`;
      return make("li", { class: elsewhere.size && there === undefined ? "only" : null }, make("span", {}, shown(place === "head" ? answer.tail : answer.head, 80)), make("span", { class: "soft" }, ` ${moved} `), probabilityBar(answer.probability));
    })));
  return [
    make("h1", {}, place === "head" ? `${words[0]} ${words[1]} ?` : `? ${words[1]} ${words[0]}`),
    make("p", { class: "trail" }, link("The question to one run", askAt(label, relation, place))),
    make("div", { class: "filters" }, pick("one", one), pick("other", other)),
    make("div", { class: "columns beside-runs" }, column(one, both[0], names[1]), column(other, both[1], names[0])),
    soft("“only here”: the other run does not have it among its first 15."),
    copyAs("/predict", { body }),
  ];
}

// A question to a run that need not be the one of the address; a name that it does not know is said in its column.
async function answersOf(run, body, signal) {
  try {
    return await post("/predict", body, signal, { run: run.name });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { problem: error.message };
  }
}

