// What was kept, and what was looked at lately, in this browser.
import { button, link, make, shown, soft } from "../dom.js";
import { forgetAll, keep, lately } from "../lately.js";
import { ago } from "../words.js";

const KINDS = { entity: "entity", relation: "relation", graph: "canvas", ask: "question", why: "why?", compare: "two runs", review: "review", map: "map" };

export async function latelyView() {
  const { seen, kept } = lately(), again = (event) => event.target.dispatchEvent(new Event("again", { bubbles: true }));
  const kind = (hash) => KINDS[hash.slice(2).split(/[/?]/)[0]] ?? "";
  const row = ({ hash, title, at }, ...more) => make("li", {}, link(title, hash), make("span", { class: "soft" }, ` ${kind(hash)} · ${ago(at)} `), ...more);
  const drop = (each) => button("No longer", (event) => {
    keep(each.hash, each.title);
    again(event);
  }, { class: "link", "aria-label": `No longer keep ${shown(each.title, 60)}` });
  return [
    make("h1", {}, "Kept, and seen lately"),
    soft("This browser remembers them, nobody else."),
    make("h2", {}, "Kept"),
    kept.length ? make("ul", { class: "facts" }, ...kept.map((each) => row(each, drop(each)))) : soft("Nothing yet: “Keep this view” stands below every view."),
    make("h2", {}, "Seen lately"),
    seen.length ? make("ul", { class: "facts" }, ...seen.map((each) => row(each))) : soft("Nothing yet."),
    seen.length ? make("p", { class: "buttons" }, button("Forget what was seen", (event) => { forgetAll(); again(event); })) : null,
  ];
}
