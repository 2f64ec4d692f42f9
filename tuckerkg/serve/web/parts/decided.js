// What was decided, by whom and when; and what others decide while one looks.
import { tell } from "../decide.js";
import { button, link, make, shown, soft } from "../dom.js";
import { whyAt } from "../addresses.js";
import { get, pause } from "../service.js";
import { decider } from "../session.js";
import { note } from "../notes.js";
import { ago, CHOICES, keyOf, many, number, percent } from "../words.js";
import { choice as chooser, setOptions } from "./filters.js";
import { factWords } from "./links.js";
import { decisionButtons, onDecision } from "../decide.js";

const PAGE = 50, EVERY = 5_000;

export function decidedList(choice, query, signal, place) {
  const element = make("div", { class: "decided-list" });
  const names = new Set(query.by ? [query.by] : []);
  const fill = async () => {
    const found = await get("/decisions", { choice, ...query, limit: Math.max(PAGE, place.rows ?? 0) }, signal);
    found.decisions.forEach((each) => names.add(each.by));
    const list = make("ul", { class: "links", "aria-label": "Decisions" }, ...found.decisions.map((each) => row(each, signal)));
    let from = found.next;
    const more = button("More", async () => {
      const next = await get("/decisions", { choice, ...query, limit: PAGE, offset: from }, signal);
      list.append(...next.decisions.map((each) => row(each, signal)));
      from = next.next;
      more.hidden = from === null;
      place.rows = list.children.length;
    }, { class: "more" });
    more.hidden = from === null || from === undefined;
    const by = names.size > 1 || query.by ? chooser("Decided by", query.by, [["", "anybody"], ...[...names].map((name) => [name, name])], (who) => setOptions({ by: who })) : "";
    element.replaceChildren(by, found.decisions.length ? list : make("p", { class: "empty" }, "Nothing has been decided so."), soft(many(found.total ?? found.decisions.length, "decision")), more);
  };
  fill().catch((error) => error.name === "AbortError" || element.replaceChildren(make("p", { class: "bad" }, shown(error.message))));
  return element;
}

function row(decision, signal) {
  const fact = { ...decision, decision: decision.choice };
  const words = make("span", { class: "soft" });
  const one = make("li", { class: `link is-${decision.choice}` }, make("span", { class: "fact" }, ...factWords(fact), " ", words),
    make("span", { class: "probability" }, make("span", { class: "percent" }, percent(decision.probability))), decisionButtons(fact, signal), link("why?", whyAt(fact), { class: "why" }),
    decision.note ? make("span", { class: "reason soft" }, shown(decision.note, 240)) : null);
  const mark = (found) => {
    for (const choice of Object.keys(CHOICES)) one.classList.toggle(`is-${choice}`, found?.choice === choice);
    words.textContent = found ? `${CHOICES[found.choice]?.[1] ?? found.choice} by ${shown(found.by, 60)}, ${ago(found.at)}` : "taken back";
    words.title = found?.at ?? "";
  };
  mark(decision);
  onDecision(fact, signal, mark);
  return one;
}

// Asks now and then whether somebody else has decided, and marks it where it is shown.
export async function watchDecisions(signal) {
  let seen = null;
  try {
    for (;;) {
      const found = await get("/decisions", { limit: PAGE }, signal);
      if (seen !== null && found.revision !== seen) {
        const others = found.decisions.filter((each) => each.by !== decider());
        const fresh = others.filter((each) => Date.now() - Date.parse(each.at) < 60_000);
        tell(fresh.map((each) => [keyOf(each), { choice: each.choice, by: each.by, at: each.at }]), found);
        if (fresh.length && fresh[0].revision !== seen) note(`${shown(fresh[0].by, 40)} has decided about ${fresh.length === 1 ? "a link" : many(fresh.length, "link")} just now.`, { key: "others" });
      }
      seen = found.revision;
      await pause(EVERY, signal);
    }
  } catch { /* left, or the service is gone, which the next request says */ }
}

export const total = (counts) => number(Object.values(counts).reduce((sum, each) => sum + each, 0));
