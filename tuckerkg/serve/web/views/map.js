// A map: entities where their vectors lie in a plane; words light up those whose names hold them.
import { changed, entityAt } from "../addresses.js";
import { button, draw, link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { wordField } from "../parts/filters.js";
import { recall } from "../service.js";
import { isWord, many, number, percent } from "../words.js";

const SIDE = 1000, MOST = 1000, TYPES = 8, NAMED = 12;  // names at once
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

export async function mapView({ options, signal }) {
  const query = { limit: MOST, entity: options.entity };
  const found = await recall("GET", "/map", query, signal);
  const types = typesOf(found.entities), words = options.q ? plain(options.q) : "";
  const isLit = (each) => (words ? plain(each.title).includes(words) : each.label === options.entity);
  const lit = found.entities.filter(isLit), drawn = picture(found.entities, isLit, lit.slice(0, NAMED), types);
  const zoom = (text, name, act) => button(text, act, { "aria-label": name, title: name });
  return [
    make("h1", {}, "Map of entities"),
    make("p", { class: "lead" }, `${found.total > found.entities.length ? `The ${number(found.entities.length)} of ${number(found.total)} entities with most facts` : `All ${number(found.total)} entities`}, near each other where their vectors point the same way.`),
    soft(`Two directions of many: they keep ${percent(found.variance)} of what tells entities apart, so that neighbours here need not be alike.`),
    make("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, wordField("Light up", options.q ?? "", (q) => { location.hash = changed({ q, entity: null }); }, "a part of a name"),
      zoom("+", "Zoom in", () => drawn.zoom(1.5)), zoom("−", "Zoom out", () => drawn.zoom(1 / 1.5)), zoom("Fit", "Show everything", () => drawn.zoom(0))),
    make("figure", {}, make("div", { class: "drawn map", tabindex: 0, role: "region", "aria-label": "Map" }, drawn.svg),
      make("figcaption", { class: "legend" }, ...types.map((type, at) => make("span", {}, draw("svg", { width: 14, height: 12, "aria-hidden": "true" }, draw("circle", { class: `dot-${at}`, cx: 6, cy: 6, r: 5 })), ` ${shown(type, 50)}`)))),
    words || options.entity ? make("section", {}, make("h2", {}, many(lit.length, "entity lit", "entities lit")),
      lit.length ? make("ul", { class: "chips" }, ...lit.slice(0, 60).map((each) => make("li", {}, link(each.title, entityAt(each.label))))) : soft("None of those on the map.")) : null,
    copyAs("/map", { query, csv: () => [["label", "title", "type", "x", "y"], ...found.entities.map((each) => [each.label, each.title, each.type, each.x, each.y])], name: "map.csv" }),
  ];
}

// The most frequent types; what has none of them stays grey.
function typesOf(entities) {
  const counts = new Map();
  for (const { type } of entities) if (type && (isWord(type) || type.includes("“"))) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, TYPES).map(([type]) => type);
}

function picture(entities, isLit, named, types) {
  const at = ({ x, y }) => ({ x: (SIDE / 2) * (1 + 0.95 * x), y: (SIDE / 2) * (1 - 0.95 * y) });
  const svg = draw("svg", { class: "entity-map", viewBox: `0 0 ${SIDE} ${SIDE}`, role: "group", "aria-label": "Entities as points; the list below names those that are lit" });
  const points = draw("g", {}, ...entities.map((each) => {
    const { x, y } = at(each), kind = types.indexOf(each.type), lit = isLit(each);
    return draw("a", { href: entityAt(each.label), tabindex: lit ? null : -1, "aria-label": shown(each.title, 80) }, draw("title", {}, shown(each.title, 120)),
      draw("circle", { class: `${kind < 0 ? "dot-rest" : `dot-${kind}`}${lit ? " lit" : ""}`, cx: x, cy: y, r: lit ? 11 : 5 }));
  }));
  const names = draw("g", {}, ...named.map((each) => {
    const { x, y } = at(each);
    return draw("text", { class: "lit-name", x: x > 0.75 * SIDE ? x - 15 : x + 15, y: y + 7, "text-anchor": x > 0.75 * SIDE ? "end" : "start" }, shown(each.title, 40));
  }));
  svg.append(points, names);
  let box = { x: 0, y: 0, side: SIDE };
  const show = () => svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.side} ${box.side}`);
  const zoom = (factor, where = { x: box.x + box.side / 2, y: box.y + box.side / 2 }) => {
    const side = factor ? Math.min(SIDE, Math.max(SIDE / 40, box.side / factor)) : SIDE, part = side / box.side;
    const kept = (v) => Math.max(0, Math.min(SIDE - side, v));
    box = { side, x: kept(where.x - (where.x - box.x) * part), y: kept(where.y - (where.y - box.y) * part) };
    show();
  };
  const place = (event) => {
    const { left, top, width } = svg.getBoundingClientRect(), scale = box.side / width;
    return { x: box.x + (event.clientX - left) * scale, y: box.y + (event.clientY - top) * scale };
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, place(event));
  }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", (event) => { from = place(event); });
  svg.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    const now = place(event), kept = (v) => Math.max(0, Math.min(SIDE - box.side, v));
    box = { ...box, x: kept(box.x + from.x - now.x), y: kept(box.y + from.y - now.y) };
    show();
  });
  svg.addEventListener("pointerup", () => { from = null; });
  return { svg, zoom };
}
