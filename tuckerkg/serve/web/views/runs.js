// The runs of the service: which is looked at, a file that becomes a new one, work that goes on.
import { address, home } from "../addresses.js";
import { button, link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { uploadPanel } from "../parts/uploading.js";
import { jobBlock } from "../parts/jobs.js";
import { get, post } from "../service.js";
import { note } from "../notes.js";
import { may, presentRun, readRuns, titleOf } from "../session.js";
import { number } from "../words.js";

export async function runsView({ signal }) {
  const [{ runs }, { jobs }] = await Promise.all([readRuns(signal), get("/jobs", {}, signal).catch(() => ({ jobs: [] }))]);
  const now = presentRun();
  const card = (run) => make("li", { class: run === now ? "card here" : "card" },
    make("h2", {}, link(titleOf(run), home({ run: run.default ? null : run.name }))),
    make("p", { class: "soft" }, `${shown(run.name, 60)} · ${run.version === null ? "not open yet" : `version ${run.version}`}${run.state === "ready" ? "" : `, ${run.state}`}${run === now ? " · looked at now" : ""}`),
    run.reason ? make("p", { class: "bad" }, shown(run.reason, 300)) : null,
    run.entities === null ? null : make("p", {}, `${number(run.entities)} entities, ${number(run.relations)} relations, ${number(run.facts)} facts${run.test_mrr ? `; test MRR ${run.test_mrr.toFixed(3)}` : ""}`),
    make("p", { class: "buttons" }, link("Open", home({ run: run.default ? null : run.name }), { class: "button" }),
      run.version > 1 ? link("What changed", address(["changes"], { from: run.version - 1, run: run.default ? null : run.name }), { class: "button" }) : null,
      may("train") ? button("Newest version", () => renew(run), { title: "opens the newest version on the disk and switches to it" }) : null));
  const busy = jobs.filter((job) => job.state === "waiting" || job.state === "working");
  return [
    make("h1", {}, "Runs"),
    make("ul", { class: "cards" }, ...runs.map(card)),
    runs.length > 1 ? soft("Ask a question, then “Ask two runs”: both answers stand side by side.") : null,
    busy.length ? make("section", {}, make("h2", {}, "At work"), ...busy.map((job) => jobBlock(job, signal))) : null,
    make("section", {}, make("h2", {}, "A new graph"), uploadPanel(signal)),
    copyAs("/runs", { csv: () => [["name", "title", "version", "entities", "relations", "facts", "test_mrr"], ...runs.map((run) => [run.name, run.title, run.version, run.entities, run.relations, run.facts, run.test_mrr])], name: "runs.csv" }),
  ];
}

async function renew(run) {
  try {
    const found = await post(`/runs/${encodeURIComponent(run.name)}/switch`, {});
    await readRuns();
    note(`${shown(run.name, 60)}: version ${found.run?.version ?? found.version ?? ""} is served.`);
  } catch (error) {
    note(error.message, { bad: true });
  }
}
