// A file becomes a run: sent, inspected, trained with its progress in sight, stopped or opened.
import { home } from "../addresses.js";
import { button, link, make, shown, soft } from "../dom.js";
import { post, upload } from "../service.js";
import { may, readRuns } from "../session.js";
import { lasting, many, number } from "../words.js";
import { fileDrop, takeDropped } from "./dropping.js";
import { jobBlock } from "./jobs.js";
import { progress } from "./waiting.js";

const KINDS = ".tsv,.txt,.csv,.parquet,.nt,.nq,.ttl,.rdf,.xml,.jsonld,.gz,.zip";

export function uploadPanel(signal) {
  if (!may("train")) return soft("Training from the page is off here. Start the service with --allow-training, or use a token that may train.");
  const after = make("div", { class: "after" });
  const field = make("input", { type: "file", id: "file", accept: KINDS, onchange: () => field.files.length && take(field.files[0]) });
  const take = (file) => inspect(file, after, signal);
  fileDrop.addEventListener("file", () => take(takeDropped()), { signal });
  const waiting = takeDropped();
  if (waiting) take(waiting);
  return make("div", { class: "upload" }, make("div", { class: "drop" }, make("label", { for: "file" }, "Drop a file of facts anywhere on the page, or choose one: TSV, CSV, Parquet, RDF"), field), after);
}

async function inspect(file, place, signal) {
  const bar = progress(`Reading ${file.name}`);
  place.replaceChildren(bar.element);
  try {
    place.replaceChildren(...reported(file, await upload(file, signal), place, signal));
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(make("p", { class: "bad", role: "alert" }, shown(error.message, 600)));
  }
}

function reported(file, found, place, signal) {
  const plain = file.name.replace(/\.[^.]+$/, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40) || "graph";
  const name = make("input", { id: "new-name", value: plain, required: true, maxlength: 60, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*" });
  const minutes = make("input", { id: "new-minutes", type: "number", min: 0.05, max: 600, step: "any", value: suggested(found.estimate_minutes) });
  const begin = async (event) => {
    event.preventDefault();
    try {
      const { job } = await post("/jobs", { kind: "train", upload: found.upload, minutes: Number(minutes.value), name: name.value.trim() });
      place.replaceChildren(jobBlock(job, signal, (last, said) => last.state === "done" && opened(name.value.trim(), last, said)));
    } catch (error) {
      place.querySelector(".begin-problem").textContent = shown(error.message, 400);
    }
  };
  return [
    make("h3", {}, `What is in ${shown(file.name, 80)}`), ...report(found.report),
    make("form", { class: "train", onsubmit: begin },
      make("div", { class: "filter" }, make("label", { for: "new-name" }, "Name of the run"), name),
      make("div", { class: "filter" }, make("label", { for: "new-minutes" }, "Minutes of training"), minutes),
      make("button", { class: "main" }, "Train"),
      soft(found.estimate_minutes ? `About ${lasting(60 * found.estimate_minutes)} would be enough.` : "")),
    make("p", { class: "bad begin-problem", role: "alert" }),
  ];
}

const suggested = (estimate) => (estimate ? Math.max(0.1, Math.round(10 * estimate) / 10) : 5);

async function opened(name, last, said) {
  await readRuns();
  said.textContent = "Trained. ";
  said.append(link(`Open ${shown(last.result?.run ?? name, 60)}`, home({ run: last.result?.run ?? name }), { class: "button main" }));
}

const PLAIN = { train: "facts for training", valid: "facts for validation", test: "facts for testing" };
const TROUBLE = { leaks: "facts that give others away", near_inverse_pairs: "pairs of relations that say the same the other way round", padded_labels: "names with blanks around them",
  hidden_characters: "names with characters that are not seen", look_alikes: "names that look alike", self_loops: "facts of an entity with itself", one_triple_relations: "relations with a single fact",
  entities_unseen_in_train: "entities without a fact for training" };

// What inspect says: how much there is, what may be wrong with it, and the relations.
function report(found) {
  const { counts } = found, row = (words, value) => make("tr", {}, make("th", { scope: "row" }, words), make("td", { class: "number" }, number(value)));
  const facts = counts.train + counts.valid + counts.test;
  const plain = [row("entities", counts.entities), row("relations", counts.relations), row("facts", facts), ...Object.keys(PLAIN).filter((key) => counts.valid + counts.test && counts[key]).map((key) => row(PLAIN[key], counts[key]))];
  const trouble = Object.keys(TROUBLE).filter((key) => counts[key]).map((key) => row(TROUBLE[key], counts[key]));
  const relations = (found.relations ?? []).slice(0, 8);
  return [make("div", { class: "columns" },
    make("div", {}, make("table", {}, make("tbody", {}, ...plain)), ...(found.warnings ?? []).slice(0, 6).map((each) => make("p", {}, shown(each, 300))),
      trouble.length ? [make("h4", {}, "Worth a look"), make("table", {}, make("tbody", {}, ...trouble))] : soft("Nothing looks wrong with it.")),
    make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "relation"), make("th", { scope: "col" }, "kind"), make("th", { scope: "col", class: "number" }, "facts"))),
      make("tbody", {}, ...relations.map((each) => make("tr", {}, make("td", {}, shown(each.name, 60)), make("td", {}, each.kind), make("td", { class: "number" }, number(each.triples)))),
        found.relations?.length > 8 ? make("tr", {}, make("td", { colspan: 3, class: "soft" }, `and ${many(found.relations.length - 8, "more relation")}`)) : null)))];
}
