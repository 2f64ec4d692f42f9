// What went wrong, once and in words: near names as links, a token where one is needed, the way home.
import { address, entityAt, home, parse } from "../addresses.js";
import { button, link, make, shown } from "../dom.js";
import { progress } from "../parts/waiting.js";
import { token } from "../service.js";

const TITLES = { 0: "No answer", 403: "Not allowed", 404: "Not found", 413: "Too much at once", 422: "That cannot be asked", 429: "Too much at once", 503: "Not ready yet" };

export function problemView(error, again) {
  if (error.status === 401) return tokenForm(again);
  if (error.code === "loading") return loading(again);
  if (error.status === undefined) console.error(error);
  const retry = error.status !== 404 && error.status !== 422;
  return [
    make("h1", {}, TITLES[error.status] ?? "That did not work"),
    make("p", { class: "bad" }, shown(error.message, 600)),
    error.errors?.length ? make("ul", {}, ...error.errors.map((each) => make("li", {}, shown(each.detail, 300)))) : null,
    error.near?.length ? nearNames(error.near) : null,
    error.id ? make("p", { class: "soft" }, `The service's log has more under ${shown(error.id, 64)}.`) : null,
    make("p", { class: "buttons" }, retry ? button("Try again", again, { class: "main" }) : null, link("To the start", home(error.code === "unknown-run" ? { run: null } : undefined), { class: "button" })),
  ];
}

// A run that is being opened: asked again until it stands.
function loading(again) {
  const { hash } = location;
  setTimeout(() => location.hash === hash && again(), 1500);
  return [make("h1", {}, "The run is being opened"), progress("This takes some seconds, on a large graph a minute.").element];
}

// The same address with the near name in the place of the one that is not known.
function nearNames(near) {
  const { parts } = parse(location.hash);
  const at = (each) => (parts[0] === "entity" || parts[0] === "graph" || parts[0] === "relation" ? address([parts[0], each.label]) : entityAt(each.label));
  return make("div", {}, make("p", {}, "Did you mean:"), make("ul", { class: "chips" }, ...near.map((each) => make("li", {}, link(each.title, at(each))))));
}

function tokenForm(again) {
  const wrong = token.get() !== null;
  const field = make("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    token.set(field.value);
    again();
  };
  return [
    make("h1", {}, "A token is needed"),
    make("p", {}, "This service answers only those who have its token. Whoever runs it can give you one."),
    wrong ? make("p", { class: "bad", role: "alert" }, "The token that was entered is not one of them.") : null,
    make("form", { onsubmit: enter, class: "token" }, make("label", { for: "token" }, "Token"), field, make("button", { class: "main" }, "Enter")),
    make("p", { class: "soft" }, "It is kept until this tab is closed."),
  ];
}
