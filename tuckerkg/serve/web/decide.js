// Decisions about predicted links, wherever they are shown: accept, reject, defer, undo.
import { button } from "./dom.js";
import { note } from "./notes.js";
import { forget, post } from "./service.js";
import { askWho, bus, may, session } from "./session.js";
import { CHOICES, keyOf, many, sentence } from "./words.js";

const named = (fact) => ({ head: fact.head_label, relation: fact.relation_label, tail: fact.tail_label });
const by = (who) => (session.who ? {} : { by: who });

// Decides and says so; the answer is whether it is kept.
export async function decide(facts, choice) {
  const who = await askWho();
  if (!who || !facts.length) return false;
  try {
    const kept = await post("/decisions", { decisions: facts.map((fact) => ({ ...named(fact), choice })), ...by(who) });
    forget();
    tell(facts.map((fact) => [keyOf(fact), { choice, by: who, at: new Date().toISOString() }]), kept);
    const what = facts.length === 1 ? sentence(facts[0], 40) : many(facts.length, "link");
    note(`${CHOICES[choice][1]}: ${what}`, { action: ["Undo", () => undo(facts.length)], key: "decision" });
    return true;
  } catch (error) {
    note(`Not kept: ${error.message}`, { bad: true });
    return false;
  }
}

export async function undo(count = 1) {
  const who = await askWho();
  if (!who) return false;
  try {
    const kept = await post("/decisions/undo", { count, ...by(who) });
    forget();
    tell(kept.decisions.map((each) => [keyOf(each), null]), kept);
    const first = kept.decisions[0];
    note(kept.decisions.length === 0 ? `There is no decision of ${who} to take back.`
      : kept.decisions.length === 1 ? `taken back: ${sentence(first, 40)}` : `taken back: ${many(kept.decisions.length, "decision")}`, { key: "decision" });
    return kept.decisions.length > 0;
  } catch (error) {
    note(`Not taken back: ${error.message}`, { bad: true });
    return false;
  }
}

// Views listen for this: what was decided, here or elsewhere, by the key of the fact.
export function tell(changes, kept = {}) {
  bus.dispatchEvent(new CustomEvent("decided", { detail: { changes: new Map(changes), counts: kept.counts, revision: kept.revision } }));
}

// The three buttons beside a link; pressed is what is decided.
export function decisionButtons(fact, signal) {
  if (!may("decide")) return null;
  const marks = { accept: "✓", reject: "✗", defer: "…" };
  const all = Object.keys(CHOICES).map((choice) => {
    const words = `${CHOICES[choice][0]}: ${sentence(fact, 60)}`;
    return button(marks[choice], () => decide([fact], choice), { class: `mark ${choice}`, "aria-label": words, title: CHOICES[choice][0], "data-choice": choice, "aria-pressed": "false" });
  });
  const press = (choice) => all.forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.choice === choice)));
  press(fact.decision);
  onDecision(fact, signal, (decision) => press(decision?.choice));
  const group = document.createElement("span");
  group.className = "marks";
  group.append(...all);
  return group;
}

// Calls back with the decision about a fact, or null where it was taken back, until the view is left.
export function onDecision(fact, signal, back) {
  const key = keyOf(fact);
  const heard = (event) => {
    if (!event.detail.changes.has(key)) return;
    const decision = event.detail.changes.get(key);
    fact.decision = decision?.choice ?? null;
    back(decision);
  };
  bus.addEventListener("decided", heard, { signal });
}
