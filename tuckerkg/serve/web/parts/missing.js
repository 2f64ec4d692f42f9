// The open list: links that the model believes and the graph does not hold, page by page, under the filters.
import { button, make, shown, soft } from "../dom.js";
import { get, pause } from "../service.js";
import { many, number, percent } from "../words.js";
import { listOf, predictedRow } from "./links.js";
import { progress } from "./waiting.js";

const PAGE = 25;

// The first page as soon as the search through the graph has ended; until then ``tell`` gets how far it is.
export async function readMissing(query, signal, tell = () => {}) {
  for (;;) {
    const found = await get("/missing", { limit: PAGE, ...query }, signal);
    if (found.state === "ready") return found;
    if (found.state === "failed") throw new Error(`The search through the graph has failed: ${shown(found.reason ?? "the service does not say why")}`);
    tell(found);
    await pause(800, signal);
  }
}

export const queryOf = (options) => ({ relation: options.relation, type: options.type, entity: options.entity, at_least: options.at_least });

// ``place`` remembers how many were shown, so that Back finds as many. ``rowOf(answer)`` makes a line.
export function openList(query, about, signal, place, rowOf = null) {
  const bar = progress("Looking through the whole graph");
  const element = make("div", { class: "open-list" }, bar.element);
  const answers = [];
  const row = rowOf ?? ((answer) => predictedRow(answer, signal, { reason: answer.reason }));
  const fill = async () => {
    const first = await readMissing({ ...query, limit: Math.max(PAGE, place.rows ?? 0) }, signal,
      (found) => bar.tell(found.done, found.total, "Looking through the whole graph", found.seconds_left ?? null));
    const list = listOf([], "Missing links");
    const more = button("More", () => next(), { class: "more" });
    const left = soft();
    let from = null;
    const add = (found) => {
      answers.push(...found.answers);
      list.append(...found.answers.map(row));
      from = found.next;
      more.hidden = from === null || from === undefined;
      place.rows = answers.length;
      left.textContent = `${number(answers.length)} of ${many(found.total_answers, "link")}${found.chosen === "all" ? "" : `, among the answers to ${number(found.asked)} of ${many(found.questions, "question")}`}.`;
    };
    const next = async () => {
      more.disabled = true;
      try {
        add(await readMissing({ ...query, offset: from }, signal));
      } finally {
        more.disabled = false;
      }
    };
    if (!first.answers.length) {
      element.replaceChildren(nothing(query, about));
      return answers;
    }
    add(first);
    element.replaceChildren(list, left, more);
    return answers;
  };
  const ready = fill().catch((error) => {
    if (error.name !== "AbortError") element.replaceChildren(make("p", { class: "bad" }, shown(error.message)));
    return answers;
  });
  return { element, ready, answers };
}

function nothing(query, about) {
  const least = query.at_least ?? about.threshold;
  const narrowed = query.relation || query.type || query.entity;
  return make("div", { class: "empty" },
    make("p", { class: "lead" }, "Nothing to see here."),
    make("p", {}, `No undecided link ${narrowed ? "under these filters " : ""}has a probability of ${percent(Number(least))} or more. `,
      "Less probable ones are left out on purpose: most of them would be wrong."));
}
