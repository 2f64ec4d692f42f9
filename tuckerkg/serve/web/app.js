// The page: a view per address, so that any view can be shared, and going back leads to the place that was left.
import { parse } from "./addresses.js";
import { showFooter, showHeader, startFrame } from "./frame.js";
import { looked } from "./lately.js";
import { keysOfView } from "./keys.js";
import { say } from "./notes.js";
import { placeOf, restore } from "./places.js";
import { Problem } from "./service.js";
import { readRuns, session } from "./session.js";
import { startSearch } from "./search.js";
import { answersView } from "./views/answers.js";
import { changesView } from "./views/changes.js";
import { compareView } from "./views/compare.js";
import { entityView } from "./views/entity.js";
import { graphView } from "./views/graph.js";
import { latelyView } from "./views/lately.js";
import { mapView } from "./views/map.js";
import { modelView } from "./views/model.js";
import { problemView } from "./views/problem.js";
import { relationView } from "./views/relation.js";
import { relationsView } from "./views/relations.js";
import { reviewView } from "./views/review.js";
import { runsView } from "./views/runs.js";
import { startView } from "./views/start.js";
import { whyView } from "./views/why.js";
import { skeleton } from "./parts/waiting.js";
import { acceptFiles } from "./parts/dropping.js";

const VIEWS = {
  "": startView, review: reviewView, graph: graphView, entity: entityView, relations: relationsView, relation: relationView,
  ask: answersView, why: whyView, runs: runsView, compare: compareView, changes: changesView, model: modelView, map: mapView, lately: latelyView,
};
const view = document.getElementById("view"), work = document.getElementById("work"), query = document.getElementById("query");
let running = new AbortController();

async function go() {
  running.abort();
  running = new AbortController();
  const { signal } = running, { place, seen } = placeOf();
  keysOfView({}, signal);
  view.setAttribute("aria-busy", "true");
  work.classList.add("busy");
  const waiting = setTimeout(() => signal.aborted || (view.replaceChildren(...skeleton()), window.scrollTo(0, 0)), 200);
  let content, failed = false;
  try {
    let asked;
    try {
      asked = parse(location.hash);
    } catch {
      asked = { parts: ["nowhere"], options: {} };
    }
    if (!session.runs.length) await readRuns(signal);
    showHeader(asked.parts[0]);
    const show = Object.hasOwn(VIEWS, asked.parts[0]) ? VIEWS[asked.parts[0]] : null;
    if (!show) throw new Problem(404, { detail: "There is no such page here." });
    const open = (nodes) => {  // a view that takes long shows a part of itself first
      clearTimeout(waiting);
      if (!signal.aborted) view.replaceChildren(...nodes.filter(Boolean));
    };
    content = await show({ parts: asked.parts.slice(1), options: asked.options, signal, place, open });
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    content = problemView(error, go);
    failed = true;
  } finally {
    clearTimeout(waiting);
  }
  if (signal.aborted) return;
  view.replaceChildren(...content.flat().filter(Boolean));
  view.removeAttribute("aria-busy");
  work.classList.remove("busy");
  const title = view.querySelector("h1")?.textContent ?? "tuckerkg";
  document.title = `${title} – tuckerkg`;
  say(`${title}: shown`);
  if (!failed) looked(location.hash, title);
  showFooter();
  if (location.hash && document.activeElement !== query && !view.contains(document.activeElement)) view.focus({ preventScroll: true });
  restore(seen, signal);
}

view.addEventListener("again", go);  // a view that has changed as a whole asks to be shown again
window.addEventListener("hashchange", go);
startSearch();
startFrame();
acceptFiles();
go();
