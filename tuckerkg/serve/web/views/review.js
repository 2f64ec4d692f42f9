// The review queue: predicted links one after another, decided by key or by hand, with who and when, undo and export.
import { address, changed, entityAt, whyAt } from "../addresses.js";
import { decide, undo } from "../decide.js";
import { button, make, shown, soft, wide } from "../dom.js";
import { keysOfView, showKeys } from "../keys.js";
import { copyAs } from "../parts/copying.js";
import { decidedList, watchDecisions } from "../parts/decided.js";
import { choice, filtersOfMissing, setOptions } from "../parts/filters.js";
import { jobBlock } from "../parts/jobs.js";
import { predictedRow } from "../parts/links.js";
import { openList, queryOf } from "../parts/missing.js";
import { note } from "../notes.js";
import { download, forget, get, post } from "../service.js";
import { askWho, bus, decider, may, presentRun, readRuns, session } from "../session.js";
import { CHOICES, many, number, sentence } from "../words.js";

const STATES = [["", "not decided yet"], ["accept", "accepted"], ["reject", "rejected"], ["defer", "deferred"], ["all", "all decided"]];

export async function reviewView({ options, signal, place }) {
  const about = await get("/run", {}, signal);
  const state = choice("Decision", options.decision, STATES, (decision) => setOptions({ decision }));
  const query = queryOf(options), filters = await filtersOfMissing(options, about, signal, [state]);
  const bar = tally(query, signal);
  watchDecisions(signal);
  const top = [
    make("div", { class: "title-row" }, make("h1", {}, "Review"), who(signal), button("Keys", showKeys, { class: "quiet", title: "?" })),
    bar.element, filters];
  if (options.decision) {
    const list = decidedList(options.decision === "all" ? null : options.decision, { relation: options.relation, by: options.by }, signal, place);
    keysOfView({ z: ["undo", () => undo()] }, signal);
    return [...top, list, actions(about, signal, bar)];
  }
  const queue = new Queue(signal, place, options.one === "yes");
  const list = openList({ ...query, decided: "no", reasons: true }, about, signal, place, (answer) => queue.row(answer));
  list.ready.then(() => queue.begin());
  queue.list = list;
  const mode = make("label", { class: "toggle" }, make("input", { type: "checkbox", checked: queue.single, onchange: (event) => { location.hash = changed({ one: event.target.checked }); } }), " one by one");
  keysOfView(queue.keys(), signal);
  list.element.classList.toggle("single", queue.single);
  list.element.classList.add("listed");
  return [...top, make("div", { class: "options" }, mode, queue.selection, make("span", { class: "soft hint" }, "J K move · A accept · R reject · D defer · Z undo · Enter why · ? all keys")),
    list.element, actions(about, signal, bar), copyAs("/missing", { query: { ...query, limit: 100 }, csv: true, name: "missing.csv" })];
}

// Rows that can be walked through, chosen and decided.
class Queue {
  constructor(signal, place, single) {
    Object.assign(this, { signal, place, single, rows: [], chosen: new Set(), at: -1 });
    this.selection = make("span", { class: "selection", "aria-live": "polite" });
    bus.addEventListener("decided", () => this.showSelection(), { signal });
  }

  row(answer) {
    const number_ = this.rows.length;
    const box = make("input", { type: "checkbox", class: "pick", "aria-label": `Select ${sentence(answer, 60)}`, onchange: () => this.pick(number_, box.checked) });
    const row = predictedRow(answer, this.signal, { select: box, reason: answer.reason });
    row.tabIndex = -1;
    row.addEventListener("focus", () => this.mark(number_));
    row.addEventListener("click", () => this.mark(number_));
    this.rows.push({ answer, row, box });
    return row;
  }

  begin() {
    if (!this.rows.length) return;
    const start = Math.min(this.place.at ?? 0, this.rows.length - 1);
    this.mark(start);
    if (!document.activeElement?.matches("input, select")) this.rows[start].row.focus({ preventScroll: true });
  }

  mark(at) {
    this.rows[this.at]?.row.classList.remove("here");
    this.at = at;
    this.place.at = at;
    this.rows[at]?.row.classList.add("here");
    this.rows.forEach((each, place) => { each.row.tabIndex = place === at ? 0 : -1; });
  }

  move(step) {
    const next = Math.max(0, Math.min(this.rows.length - 1, this.at + step));
    const { row } = this.rows[next] ?? {};
    if (!row) return;
    this.mark(next);
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    if (next >= this.rows.length - 3) this.list.element.querySelector("button.more:not([hidden]):not(:disabled)")?.click();
  }

  async decide(choice_) {
    const here = this.rows[this.at];
    if (here && may("decide") && (await decide([here.answer], choice_))) this.next();
  }

  // The next row that nobody has decided.
  next() {
    const open = this.rows.findIndex((each, place) => place > this.at && !each.answer.decision);
    this.move(open < 0 ? 1 : open - this.at);
  }

  async undo() {
    const heard = new AbortController();
    let keys = null;
    bus.addEventListener("decided", (event) => { keys = event.detail.changes; }, { signal: heard.signal });
    if (await undo()) {
      const back = this.rows.findIndex(({ answer }) => keys?.has(JSON.stringify([answer.head_label, answer.relation_label, answer.tail_label])));
      if (back >= 0) this.move(back - this.at);
    }
    heard.abort();
  }

  pick(at, on) {
    on ? this.chosen.add(at) : this.chosen.delete(at);
    this.rows[at].box.checked = on;
    this.rows[at].row.classList.toggle("picked", on);
    this.showSelection();
  }

  showSelection() {
    const count = this.chosen.size;
    this.selection.replaceChildren(...(count ? [button(`${many(count, "link")} selected: decide (X)`, () => this.bulk()), " ", button("None", () => [...this.chosen].forEach((at) => this.pick(at, false)), { class: "quiet" })] : []));
  }

  bulk() {
    const facts = [...this.chosen].map((at) => this.rows[at].answer);
    if (!facts.length) return note("Select links first: Space, or the boxes.", { key: "bulk" });
    const dialog = make("dialog", { "aria-labelledby": "bulk-title" });
    const end = async (choice_) => {
      dialog.close();
      if (choice_ && (await decide(facts, choice_))) [...this.chosen].forEach((at) => this.pick(at, false));
    };
    const keys = { a: "accept", r: "reject", d: "defer", u: "defer" };
    dialog.addEventListener("keydown", (event) => {
      const choice_ = keys[event.key.toLowerCase()];
      if (!choice_) return;
      event.stopPropagation();  // the key means the selection, not the row that is behind the dialog
      event.preventDefault();
      end(choice_);
    });
    dialog.append(make("h2", { id: "bulk-title" }, `${many(facts.length, "link")} at once`), make("ul", { class: "facts" }, ...facts.slice(0, 8).map((fact) => make("li", {}, sentence(fact)))),
      facts.length > 8 ? soft(`and ${number(facts.length - 8)} more`) : "",
      make("p", { class: "buttons" }, ...Object.entries(CHOICES).map(([key, [word]]) => button(`${word} (${word[0]})`, () => end(key))), button("Cancel", () => dialog.close(), { class: "quiet" })));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    return dialog.showModal();
  }

  keys() {
    const here = () => this.rows[this.at];
    const decides = may("decide") ? {
      a: ["accept", () => this.decide("accept")], r: ["reject", () => this.decide("reject")], d: ["defer", () => this.decide("defer")],
      u: ["defer: undecided", () => this.decide("defer")], z: ["undo my last decision", () => this.undo()],
      " ": ["select", () => here() && this.pick(this.at, !this.chosen.has(this.at))], x: ["decide about what is selected", () => this.bulk()],
    } : {};
    return {
      j: ["next", () => this.move(1)], k: ["previous", () => this.move(-1)], ArrowDown: ["next", () => this.move(1)], ArrowUp: ["previous", () => this.move(-1)], ...decides,
      Enter: ["why?", () => { if (here()) location.hash = whyAt(here().answer); }], e: ["the entity at its head", () => { if (here()) location.hash = entityAt(here().answer.head_label); }],
    };
  }
}

// How much of the list is done: decided links among all that stand under the filters.
function tally(query, signal) {
  const fill = make("span"), words = make("span", { class: "tally-words", "aria-live": "polite" });
  const element = make("div", { class: "tally" }, words, make("div", { class: "bar", "aria-hidden": "true" }, fill));
  const read = async () => {
    try {
      const [any, open, kept] = await Promise.all([get("/missing", { ...query, decided: "any", limit: 1 }, signal), get("/missing", { ...query, decided: "no", limit: 1 }, signal), get("/decisions", { limit: 1 }, signal)]);
      if (any.state !== "ready" || open.state !== "ready") return void setTimeout(() => signal.aborted || read(), 2000);
      const done = any.total_answers - open.total_answers;
      const said = Object.entries(kept.counts).filter(([, count]) => count).map(([key, count]) => `${number(count)} ${CHOICES[key][1]}`).join(", ");
      words.textContent = `${number(done)} of ${number(any.total_answers)} done${said ? ` · in all ${said}` : ""}`;
      wide(fill, any.total_answers ? done / any.total_answers : 0);
    } catch (error) {
      if (error.name !== "AbortError") words.textContent = shown(error.message);
    }
    return null;
  };
  let soon = 0;
  bus.addEventListener("decided", () => {
    clearTimeout(soon);
    soon = setTimeout(read, 250);
  }, { signal });
  read();
  return { element, read };
}

function who(signal) {
  const place = make("span", { class: "soft who" });
  const tell = () => place.replaceChildren(may("decide") ? (decider() ? `as ${shown(decider(), 60)}` : "") : "Read only: deciding needs a token that may decide.", " ",
    session.who || !decider() ? "" : button("change", async () => { localStorage.removeItem("tuckerkg-name"); await askWho(); tell(); }, { class: "link" }));
  bus.addEventListener("decided", tell, { signal });
  tell();
  return place;
}

// What becomes of decisions: files, and the accepted ones into the graph.
function actions(about, signal, bar) {
  const save = (format, choice_) => download("/decisions/export", { format, choice: choice_ }, { name: `decisions.${format}` }).catch((error) => note(error.message, { bad: true }));
  const formats = [["tsv", "TSV"], ["csv", "CSV"], ["nt", "N-Triples"]];
  const which = make("select", { "aria-label": "Which decisions" }, ...[["", "all decided"], ["accept", "accepted"], ["reject", "rejected"], ["defer", "deferred"]].map(([key, words]) => make("option", { value: key }, words)));
  const place = make("div", { "aria-live": "polite" });
  const add = button("Add accepted to the graph", async () => {
    add.disabled = true;
    try {
      const { job } = await post("/decisions/add", {});
      place.replaceChildren(jobBlock(job, signal, async (last, said) => {
        add.disabled = false;
        if (last.state !== "done") return;
        forget();
        await readRuns();
        const version = last.result?.run?.version ?? presentRun()?.version;
        said.textContent = `The accepted links are in the graph: version ${version} is served now. `;
        said.append(make("a", { href: changedSince(last.result?.before ?? version - 1) }, "What changed"));
        bar.read();
      }));
    } catch (error) {
      add.disabled = false;
      note(error.message, { bad: true });
    }
  }, { class: "main" });
  return make("section", { class: "actions" }, make("h2", {}, "What becomes of it"),
    make("p", { class: "buttons" }, which, ...formats.map(([format, words]) => button(words, () => save(format, which.value))), may("decide") && about.may.add ? add : null), place);
}

const changedSince = (version) => address(["changes"], { from: typeof version === "object" ? version.version : version });
