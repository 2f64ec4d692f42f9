// The page: a view per address, so that any view can be shared and going back works.
import { make, percent, shown } from "./dom.js";
import { around, curve, explanation, reliability } from "./pictures.js";
import { get, post, Problem, remember } from "./service.js";

const view = document.getElementById("view"), status = document.getElementById("status");
const query = document.getElementById("query"), matches = document.getElementById("matches");
let running = new AbortController();

// ------------------------------------------------------------------------------------------------ addresses

const address = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
const entityAddress = (label) => address("entity", label);
const askAddress = (label, relation, place, options = {}) =>
  address("ask", label, relation, place, options.known ? "known" : "new", options.typed === false ? "any" : "typed");
const whyAddress = (fact) => address("why", fact.head_label, fact.relation_label, fact.tail_label);

const FIRST = 12;  // questions about an entity that are seen at once
const VIEWS = { "": home, entity, ask, why };

async function go() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    parts = ["nowhere"];
  }
  say("Loading …");
  view.setAttribute("aria-busy", "true");
  try {
    const show = Object.hasOwn(VIEWS, parts[0]) ? VIEWS[parts[0]] : null;
    if (!show) throw new Problem(404, "There is no such page here.");
    const content = await show(signal, ...parts.slice(1));
    if (signal.aborted) return;
    view.replaceChildren(...content);
    say("");
    const title = view.querySelector("h1");
    document.title = title ? `${title.textContent} – tuckerkg` : "tuckerkg";
    if (location.hash && document.activeElement !== query) view.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    view.replaceChildren(...failure(error));
    say(error.message, true);
  } finally {
    if (!signal.aborted) view.removeAttribute("aria-busy");
  }
}

function say(text, bad = false) {
  status.textContent = shown(text, 600);
  status.classList.toggle("bad", bad);
}

function failure(error) {
  if (error.status === 401) return [tokenForm()];
  const again = make("button", { type: "button", onclick: go }, "Try again");
  return [make("h1", {}, error.status === 404 ? "Not found" : "That did not work"), make("p", {}, shown(error.message, 600)), again];
}

function tokenForm() {
  const field = make("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
  const enter = (event) => {
    event.preventDefault();
    remember(field.value);
    go();
  };
  return make("form", { onsubmit: enter }, make("h1", {}, "A token is needed"),
    make("p", {}, "This service answers only who has its token."), field, " ", make("button", {}, "Enter"));
}

// ------------------------------------------------------------------------------------------------ views

async function home(signal) {
  const run = await get("/api/run", {}, signal);
  const rows = Object.entries(run.facts).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, shown(name)), make("td", {}, shown(value))));
  const figures = run.test ? ["mrr", "hits@1", "hits@3", "hits@10"].filter((name) => name in run.test)
    .map((name) => make("tr", {}, make("th", { scope: "row" }, `test ${name}`), make("td", {}, run.test[name].toFixed(3)))) : [];
  const missing = make("div", {}, make("p", { class: "soft" }, "Looking through the whole graph …"));
  followMissing(missing, signal);
  return [
    make("h1", {}, shown(run.name)),
    make("p", {}, "Search an entity above, or begin with what the model believes to be missing."),
    make("div", { class: "columns" },
      make("section", {}, make("h2", {}, "The run"), make("table", {}, ...rows, ...figures)),
      run.curve.length > 1 ? make("section", {}, make("h2", {}, "Training"), make("figure", {}, curve(run.curve, "Validation MRR while training", "epoch", "validation MRR"))) : null,
      run.calibration ? make("section", {}, make("h2", {}, "Probabilities"), make("figure", {}, reliability(run.calibration.bins)),
        make("p", { class: "soft" }, `Expected calibration error ${run.calibration.ece.toFixed(3)} on validation.`)) : null),
    make("section", {}, make("h2", {}, "Most confident missing links"), missing),
  ].filter(Boolean);
}

async function followMissing(place, signal) {
  try {
    for (;;) {
      const found = await get("/api/missing", { limit: 20 }, signal);
      if (found.state === "ready") {
        const [asked, all] = [found.asked, found.questions].map((count) => count.toLocaleString("en"));
        const part = make("p", { class: "soft" }, `Among the answers to ${asked} of ${all} questions, ${found.chosen} ones.`);
        place.replaceChildren(...(found.chosen === "all" ? [] : [part]), answerList(found.answers));
        return;
      }
      if (found.state === "failed") {
        place.replaceChildren(make("p", {}, shown(`The search has failed: ${found.reason}`)));
        return;
      }
      const share = found.total ? ` ${Math.floor((100 * found.done) / found.total)} %` : "";
      place.replaceChildren(make("p", { class: "soft" }, `Looking through the whole graph …${share}`));
      await new Promise((resolve) => setTimeout(resolve, 700));
      if (signal.aborted) return;
    }
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(make("p", {}, shown(error.message)));
  }
}

async function entity(signal, label) {
  const [known, near, open] = await Promise.all([
    get("/api/facts", { entity: label, limit: 200 }, signal), get("/api/neighbourhood", { entity: label, limit: 12 }, signal),
    get("/api/suggestions", { entity: label }, signal)]);
  const { title, label: name } = known.entity;
  const facts = known.facts.map((fact) => make("li", {}, link(fact.head, entityAddress(fact.head_label)), ` ${shown(fact.relation)} `,
    link(fact.tail, entityAddress(fact.tail_label)), ". ", link("why?", whyAddress(fact), `Why: ${fact.head} ${fact.relation} ${fact.tail}`)));
  const chips = open.suggestions.map((each) => make("li", {}, link(
    each.place === "head" ? `${shown(title, 40)} ${each.relation} ?` : `? ${each.relation} ${shown(title, 40)}`,
    askAddress(name, each.relation_label, each.place))));
  return [
    make("h1", {}, shown(title)),
    title === name ? null : make("p", { class: "soft" }, shown(name)),
    make("h2", {}, "What may be missing?"),
    chips.length ? make("ul", { class: "chips" }, ...chips.slice(0, FIRST)) : make("p", {}, "No relation has been seen with an entity like this."),
    chips.length > FIRST ? make("details", {}, make("summary", {}, `${chips.length - FIRST} more questions`), make("ul", { class: "chips" }, ...chips.slice(FIRST))) : null,
    make("h2", {}, `${known.total.toLocaleString("en")} known facts`),
    near.facts.length ? make("figure", {}, around(name, near.facts, entityAddress)) : null,
    facts.length ? make("ul", { class: "plain facts" }, ...facts) : make("p", {}, "The graph holds no fact about it."),
    known.total > facts.length ? make("p", { class: "soft" }, `The first ${facts.length} are shown.`) : null,
  ].filter(Boolean);
}

async function ask(signal, label, relation, place, known = "new", kind = "typed") {
  if (place !== "head" && place !== "tail") throw new Problem(404, "There is no such page here.");
  const options = { known: known === "known", typed: kind !== "any" };
  const { answers } = await post("/api/predict", { [place]: label, relation, k: 25, joined: true, ...options }, signal);
  const about = answers[0] ?? (await get("/api/facts", { entity: label, limit: 1 }, signal));
  const name = about[place] ?? about.entity.title, said = about.relation ?? relation;
  const toggle = (text, on, next) => make("label", {}, make("input", { type: "checkbox", checked: on, onchange: () => { location.hash = next; } }), ` ${text}`);
  return [
    make("h1", {}, place === "head" ? `${shown(name, 80)} ${shown(said, 80)} ?` : `? ${shown(said, 80)} ${shown(name, 80)}`),
    make("p", {}, link(`Back to ${shown(name, 60)}`, entityAddress(label))),
    make("div", { class: "options" },
      toggle("known facts too", options.known, askAddress(label, relation, place, { ...options, known: !options.known })),
      toggle("only entities seen there", options.typed, askAddress(label, relation, place, { ...options, typed: !options.typed }))),
    answers.length ? answerList(answers, place) : make("p", {}, "Nothing is missing here that the model could name."),
  ];
}

function answerList(answers, place = null) {
  return make("ul", { class: "plain answers" }, ...answers.map((fact) => {
    const text = place === "head" ? shown(fact.tail) : place === "tail" ? shown(fact.head) : `${shown(fact.head)} ${shown(fact.relation)} ${shown(fact.tail)}`;
    const fillUp = make("span");
    fillUp.style.width = `${100 * fact.probability}%`;
    const bar = make("div", { class: "bar", role: "img", "aria-label": `probability ${percent(fact.probability)}` }, fillUp);
    return make("li", {}, make("span", {}, link(text, whyAddress(fact)), " ", fact.known ? make("span", { class: "known" }, "known") : null), bar,
      make("span", { class: "soft" }, percent(fact.probability)));
  }));
}

async function why(signal, head, relation, tail) {
  say("Taking edges out and encoding the graph again …");
  const { explanation: found } = await post("/api/explain", { head, relation, tail, k: 5 }, signal);
  const edges = found.edges.map((edge) => make("li", {}, `${shown(edge.head)} ${shown(edge.relation)} ${shown(edge.tail)}`,
    make("div", { class: "soft" }, withoutIt(found.standing, edge.standing))));
  const paths = found.paths.map((path) => make("li", {}, pathWords(path),
    make("div", { class: "soft" }, path.share === null ? "" : `${Math.round(100 * path.share)} % of the score; `,
      `${Math.round(100 * path.confidence)} % of ${path.walks.toLocaleString("en")} such paths end at a true ${shown(found.relation, 60)}`)));
  return [
    make("h1", {}, `${shown(found.head, 80)} ${shown(found.relation, 80)} ${shown(found.tail, 80)}`),
    make("p", {}, `Probability ${percent(found.probability)}, rank ${found.standing.rank.toLocaleString("en")} of ${found.candidates.toLocaleString("en")}. `,
      found.known ? make("span", { class: "known" }, "known") : null),
    make("p", {}, link(`Facts of ${shown(found.head, 60)}`, entityAddress(head)), " · ", link(`Facts of ${shown(found.tail, 60)}`, entityAddress(tail))),
    make("figure", {}, explanation(found)),
    make("h2", {}, "Edges that carried it, and what happens without each"),
    edges.length ? make("ol", {}, ...edges) : make("p", {}, found.uses_messages
      ? "No edge reaches it: the score comes from the embeddings alone." : "This model has no encoder: no edge of the graph enters the score."),
    edges.length > 1 ? make("p", { class: "soft" }, `Without all of them: ${withoutIt(found.standing, found.without_all)}`) : null,
    make("h2", {}, "Paths from one to the other"),
    paths.length ? make("ul", { class: "plain" }, ...paths) : make("p", {}, "No short path joins the two."),
  ].filter(Boolean);
}

function withoutIt(before, after) {
  const rank = before.rank === after.rank ? `rank stays ${after.rank.toLocaleString("en")}` : `rank ${before.rank.toLocaleString("en")} becomes ${after.rank.toLocaleString("en")}`;
  return `${rank}, ${Math.round(100 * Math.exp(after.log_share - before.log_share))} % of its share left`;
}

function pathWords(path) {
  return path.steps.reduce((text, [, relation, to, forwards]) =>
    text + (forwards ? ` –${shown(relation, 60)}→ ` : ` ←${shown(relation, 60)}– `) + shown(to, 60), shown(path.steps[0][0], 60));
}

function link(text, href, label = null) {
  return make("a", { href, "aria-label": label === null ? null : shown(label, 200) }, shown(text, 200));
}

// ------------------------------------------------------------------------------------------------ search

let typing = new AbortController(), chosen = -1;

async function search() {
  typing.abort();
  typing = new AbortController();
  const text = query.value.trim();
  if (!text) return close();
  try {
    const { entities } = await get("/api/entities", { q: text, limit: 12 }, typing.signal);
    const items = entities.map((each, place) => make("li", { role: "option", id: `match-${place}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); open(each.label); } },
      shown(each.title, 80), make("span", { class: "soft" }, ` ${each.facts.toLocaleString("en")} facts`)));
    items.forEach((item, place) => { item.dataset.label = entities[place].label; });
    matches.replaceChildren(...(items.length ? items : [make("li", { class: "soft" }, "No entity has that in its name.")]));
    matches.hidden = false;
    query.setAttribute("aria-expanded", "true");
    chosen = -1;
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  }
}

function close() {
  matches.hidden = true;
  query.setAttribute("aria-expanded", "false");
  query.removeAttribute("aria-activedescendant");
  chosen = -1;
}

function open(label) {
  close();
  query.value = "";
  query.blur();
  location.hash = entityAddress(label);
}

function choose(step) {
  const items = [...matches.querySelectorAll('[role="option"]')];
  if (!items.length) return;
  chosen = (chosen + step + items.length) % items.length;
  items.forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
  query.setAttribute("aria-activedescendant", items[chosen].id);
  items[chosen].scrollIntoView({ block: "nearest" });
}

let waiting = 0;
query.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 80);
});
query.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Escape") close();
});
query.addEventListener("blur", close);
document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  if (chosen < 0 && matches.hidden) await search();
  const items = [...matches.querySelectorAll('[role="option"]')];
  const item = items[Math.max(chosen, 0)];
  if (item) open(item.dataset.label);
});

window.addEventListener("hashchange", go);
go();
