// What was decided, by whom and when; and what others decide while one looks.
import { button, link, make, shown, soft } from "../dom.js";
import { whyAt } from "../addresses.js";
import { get, pause } from "../service.js";
import { decider } from "../session.js";
import { note } from "../notes.js";
import { ago, CHOICES, keyOf, many, percent } from "../words.js";
import { choice as chooser, setOptions } from "./filters.js";
import { factWords } from "./links.js";
import { decisionButtons, onDecision, tell } from "../decide.js";

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

// Asks now and then whether somebody else has decided or taken back, and marks it where it is shown.
export async function watchDecisions(signal) {
  let before = null;
  try {
    for (;;) {
      const found = await get("/decisions", { limit: PAGE }, signal);
      const now = new Map(found.decisions.map((each) => [keyOf(each), each]));
      if (before && found.revision !== before.revision) {
        const fresh = [...now].filter(([key, each]) => each.by !== decider() && before.now.get(key)?.line !== each.line);
        const gone = found.total < PAGE ? [...before.now.keys()].filter((key) => !now.has(key)) : [];
        tell([...fresh.map(([key, { choice, by, at }]) => [key, { choice, by, at }]), ...gone.map((key) => [key, null])], found);
        if (fresh.length) note(`${shown(fresh[0][1].by, 40)} has decided about ${fresh.length === 1 ? "a link" : many(fresh.length, "link")} just now.`, { key: "others" });
      }
      before = { now, revision: found.revision };
      await pause(EVERY, signal);
    }
  } catch { /* left, or the service is gone, which the next request says */ }
}
