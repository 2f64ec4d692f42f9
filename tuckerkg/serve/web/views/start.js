// The start: what the graph is about, what the model has found again, and what is open.
import { address, reviewAt } from "../addresses.js";
import { button, link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { filtersOfMissing } from "../parts/filters.js";
import { listOf, predictedRow } from "../parts/links.js";
import { openList, queryOf } from "../parts/missing.js";
import { progress } from "../parts/waiting.js";
import { download, get, pause } from "../service.js";
import { note } from "../notes.js";
import { many, number, percent } from "../words.js";

export async function startView({ options, signal, place }) {
  const about = await get("/run", {}, signal);
  const filters = await filtersOfMissing(options, about, signal);
  const query = queryOf(options);
  const list = openList({ ...query, decided: "no", reasons: true }, about, signal, place);
  return [
    make("section", { class: "hero" },
      make("h1", {}, shown(about.title, 80)),
      make("p", { class: "lead" }, shown(about.about, 400)),
      make("dl", { class: "counts" }, ...["entities", "relations", "facts"].map((name) => make("div", {}, make("dt", {}, name), make("dd", {}, number(about.counts[name])))))),
    proof(signal, place),
    make("section", { class: "open" },
      make("div", { class: "title-row" }, make("h2", {}, "What may be missing"), link("Review one by one", reviewAt(query), { class: "button main" })),
      soft(`Links that the graph does not hold and the model gives at least ${percent(Number(options.at_least ?? about.threshold))}.`),
      filters, list.element,
      make("p", { class: "buttons" }, button("Export CSV", () => save(query)))),
    copyAs("/missing", { query: { ...query, limit: 100 }, csv: true, name: "missing.csv" }),
    make("p", {}, link("How the model was trained, and how far its probabilities hold", address(["model"]))),
  ];
}

const save = (query) => download("/missing", { ...query, limit: 1000 }, { accept: "text/csv", name: "missing.csv" }).catch((error) => note(error.message, { bad: true }));

// Facts that were kept from the model: those it found again, with what it had said.
function proof(signal, place) {
  const bar = progress("Asking for the facts that were hidden");
  const inside = make("div", {}, bar.element);
  const section = make("section", { class: "proof", "aria-labelledby": "proof-title" }, make("h2", { id: "proof-title" }, "How good is it?"), inside);
  fillProof(inside, bar, signal, place, section).catch((error) => error.name === "AbortError" || inside.replaceChildren(soft(shown(error.message))));
  return section;
}

async function fillProof(inside, bar, signal, place, section) {
  let found = await get("/proof", { limit: Math.max(10, place.proofs ?? 0) }, signal);
  while (found.state === "working") {
    bar.tell(found.done ?? 0, found.total || null);
    await pause(800, signal);
    found = await get("/proof", { limit: 10 }, signal);
  }
  if (found.state === "failed" || !found.hidden || !found.answers.length) {
    section.hidden = found.state !== "failed";
    inside.replaceChildren(soft(found.state === "failed" ? shown(found.reason ?? "Asking for the hidden facts has failed.") : "No facts were hidden from this model."));
    return;
  }
  const list = listOf(found.answers.map((each) => row(each, signal)), "Links it was surest of");
  let from = found.next;
  const more = button("More", async () => {
    const next = await get("/proof", { limit: 25, offset: from }, signal);
    list.append(...next.answers.map((each) => row(each, signal)));
    from = next.next;
    place.proofs = list.children.length;
    more.hidden = from === null;
  });
  more.hidden = from === null || from === undefined;
  inside.replaceChildren(...headline(found), list, more);
}

const row = (answer, signal) => predictedRow(answer, signal, { tick: answer.true, decides: false });

function headline(found) {
  const told = found.said.filter((each) => each.first <= Math.max(20, found.hidden / 2));  // beyond, what is hidden runs out
  const last = told.at(-1) ?? found.said.at(-1), first = found.said[0];
  const right = (each) => Math.round(each.true_share * each.first);
  const words = [`${many(found.hidden, "fact")} ${found.hidden === 1 ? "was" : "were"} hidden from the model. `];
  if (first && first !== last) words.push(`Of the ${number(first.first)} links it was surest of, ${number(right(first))} are among them; `, `of ${number(last.first)}, `);
  else if (last) words.push(`Of the ${number(last.first)} links it was surest of, `);
  if (!last) return [make("p", {}, ...words)];
  return [
    make("p", { class: "lead" }, ...words, make("strong", {}, number(right(last))), `${first === last ? " are among them" : ""}; it had said `, make("strong", {}, percent(last.mean_probability)), "."),
    soft("✓ the link is one of the hidden facts; – it is not: wrong, or true and in no file."),
  ];
}
