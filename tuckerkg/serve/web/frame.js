// The frame around every view: pages, the switch between runs, the footer.
import { address, home, reviewAt } from "./addresses.js";
import { button, link, make, shown } from "./dom.js";
import { canBeKept, isKept, keep } from "./lately.js";
import { showKeys } from "./keys.js";
import { get } from "./service.js";
import { bus, presentRun, session, titleOf } from "./session.js";

const PAGES = [["", "Start"], ["review", "Review"], ["relations", "Relations"], ["runs", "Runs"], ["model", "Model"]];
let page = "";

export function showHeader(of = page) {
  page = of;
  document.getElementById("brand").href = home();
  document.getElementById("pages").replaceChildren(...PAGES.map(([name, title]) =>
    link(title, name === "review" ? reviewAt() : address([name]), { "aria-current": name === page ? "page" : null })));
  document.getElementById("run").replaceChildren(...runSwitch());
}

function runSwitch() {
  const now = presentRun();
  if (!now) return [];
  const title = (run) => `${shown(titleOf(run), 40)}${run.version === null ? "" : ` · v${run.version}`}`;
  if (session.runs.length === 1) return [link(title(now), address(["runs"]), { class: "one-run", title: `Run ${shown(now.name)}, version ${now.version}` })];
  const options = session.runs.map((run) => make("option", { value: run.default ? "" : run.name, selected: run === now },
    run.state === "ready" ? title(run) : `${shown(run.name, 30)} (${run.state})`));
  return [make("select", { "aria-label": "Run", onchange: (event) => { location.hash = address([""], { run: event.target.value || null }); } }, ...options)];
}

export function startFrame() {
  bus.addEventListener("runs", () => {
    showHeader();
    showFooter();
  });
  showFooter();
}

let told = null;

export async function showFooter() {
  const { hash } = location, keeper = button("", () => {
    keep(hash, document.querySelector("main h1")?.textContent ?? hash);
    name();
  }, { class: "link", hidden: !canBeKept(hash) });
  const name = () => { keeper.textContent = isKept(hash) ? "★ Kept" : "☆ Keep this view"; };
  name();
  const words = [keeper, link("Kept and lately", address(["lately"])), make("a", { href: "/api" }, "API"), button("Keys", showKeys, { class: "link" })];
  const place = document.getElementById("foot");
  place.replaceChildren(make("span", {}, told ?? "tuckerkg"), ...words);
  if (told || !session.runs.length) return;
  try {
    const about = await get("/run");
    told = `tuckerkg ${shown(about.package_version)} · ${shown(about.licence)}`;
    place.replaceChildren(make("span", {}, told), ...words);
  } catch { /* the view says what is wrong */ }
}
