// What the page knows of the service while it is open: its runs, what the caller may do, and the name of who decides.
import { runAsked } from "./addresses.js";
import { button, make } from "./dom.js";
import { forget, get, stamps } from "./service.js";

const NAME = "tuckerkg-name";
export const session = { runs: [], roles: [], who: null, mayName: true };
export const bus = new EventTarget();  // "decided", "runs"
const LOADING = 1_500;  // milliseconds until runs that are being loaded are asked about again
let loads = 0;

export async function readRuns(signal) {
  const found = await get("/runs", {}, signal);
  const versions = (runs) => JSON.stringify(runs.map((run) => [run.name, run.version, run.state]));
  if (versions(found.runs) !== versions(session.runs)) forget();
  Object.assign(session, { runs: found.runs, roles: found.roles, who: found.who, mayName: found.may_name });
  bus.dispatchEvent(new CustomEvent("runs"));
  clearTimeout(loads);
  if (found.runs.some((run) => run.state === "loading")) loads = setTimeout(() => readRuns().catch(() => {}), LOADING);
  return session;
}

// Another version is served since the runs were read: somebody else has added links, or switched.
let reading = false;
stamps.addEventListener("stamp", async ({ detail: { name, version } }) => {
  const known = session.runs.find((run) => run.name === name);
  if (!known || known.version === version || reading) return;
  reading = true;
  await readRuns().catch(() => {});
  reading = false;
});

export const may = (role) => session.roles.includes(role);

// The run that is looked at: its card among those of the service.
export function presentRun() {
  const name = runAsked();
  return session.runs.find((run) => (name ? run.name === name : run.default)) ?? session.runs[0] ?? null;
}

// A run's title, with its name where another run has the same title.
export function titleOf(run) {
  const title = run.title || run.name;
  return session.runs.some((other) => other !== run && (other.title || other.name) === title) ? `${title} (${run.name})` : title;
}

export const decider = () => session.who ?? localStorage.getItem(NAME);

export function rename(name) {
  localStorage.setItem(NAME, name);
}

// The name that stands beside decisions is asked for once and kept in this browser.
export function askWho() {
  const known = decider();
  if (known) return Promise.resolve(known);
  return new Promise((resolve) => {
    const field = make("input", { id: "who", required: true, maxlength: 80, autocomplete: "name", spellcheck: "false" });
    const dialog = make("dialog", { "aria-labelledby": "who-title" });
    const enter = (event) => {
      event.preventDefault();
      const name = field.value.trim();
      if (!name) return;
      rename(name);
      dialog.close(name);
    };
    dialog.append(make("form", { onsubmit: enter },
      make("h2", { id: "who-title" }, "Who decides?"),
      make("p", {}, "Each decision is kept with a name and the time. This browser remembers yours."),
      make("p", {}, make("label", { for: "who" }, "Your name"), field),
      make("p", { class: "buttons" }, make("button", { class: "main" }, "Keep"), button("Cancel", () => dialog.close("")))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue || null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
