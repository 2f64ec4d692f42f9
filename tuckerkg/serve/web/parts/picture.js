// The picture of an explanation: a box per entity (two of one title are two boxes), the asked link, paths, edges.
import { entityAt, whyAt } from "../addresses.js";
import { draw, make, shown } from "../dom.js";
import { sentence } from "../words.js";
import { route } from "./routes.js";

const PATHS = 3, EDGES = 6, FEW = 4;  // fewer where there is little room


export function picture(found, room) {
  const upright = room < 600, lines = linesOf(found, upright ? 2 : PATHS, upright ? FEW : EDGES);
  const boxes = boxesOf(found, lines, room, upright, upright ? 2 : PATHS);
  route(boxes, lines);
  const xs = [...boxes.values()].flatMap((box) => [box.x - box.width / 2, box.x + box.width / 2]).concat(lines.flatMap((line) => line.points.map((p) => p.x)));
  const ys = [...boxes.values()].flatMap((box) => [box.y - box.height / 2, box.y + box.height / 2]).concat(lines.flatMap((line) => line.points.map((p) => p.y)));
  const [left, top] = [Math.min(...xs) - 12, Math.min(...ys) - 12], [width, height] = [Math.max(...xs) - left + 12, Math.max(...ys) - top + 12];
  const svg = draw("svg", { class: "why-picture", viewBox: `${left} ${top} ${width} ${height}`, width, height, role: "group", "aria-label": "The link, the paths and edges that carried it, as listed below" },
    ...lines.map(lineOf), ...lines.map(labelOf), ...[...boxes].map(([label, box]) => boxOf(label, box, found)));
  const drawn = make("div", { class: "drawn", tabindex: 0, role: "region", "aria-label": "Picture" }, svg);
  const middle = boxes.get(found.head_label).x - left;  // where it is wider than the page, its middle is seen first
  if (upright) requestAnimationFrame(() => { drawn.scrollLeft = middle - drawn.clientWidth / 2; });
  return make("figure", {}, drawn, legend(lines));
}

// Each edge once: what carried the score stands before what is only on a path.
function linesOf(found, paths, edges) {
  const lines = new Map(), add = (kind, fact, weight = 0) => {
    const key = JSON.stringify([fact.head_label, fact.relation_label, fact.tail_label]);
    if (!lines.has(key)) lines.set(key, { kind, fact, weight, from: fact.head_label, to: fact.tail_label, text: shown(fact.relation, 30) });
  };
  add("asked", found);
  const most = Math.max(1e-9, ...found.edges.map((edge) => edge.loss));
  for (const edge of found.edges.slice(0, edges)) add("carried", edge, Math.max(0, edge.loss) / most);
  for (const path of found.paths.slice(0, paths)) {
    for (const step of path.steps) {
      const [head, tail] = step.forwards ? ["from", "to"] : ["to", "from"];
      add("path", { head: step[head], head_label: step[`${head}_label`], relation: step.relation, relation_label: step.relation_label, tail: step[tail], tail_label: step[`${tail}_label`] });
    }
  }
  return [...lines.values()];
}

// How deep between head (0) and tail (1), and in which lane beside the asked link (lane 0).
function boxesOf(found, lines, room, upright, paths) {
  const spots = new Map([[found.head_label, { depth: 0, lane: 0 }]]);
  if (!spots.has(found.tail_label)) spots.set(found.tail_label, { depth: 1, lane: 0 });
  const used = [], titles = new Map();
  for (const { fact } of lines) titles.set(fact.head_label, fact.head).set(fact.tail_label, fact.tail);
  const put = (labels, depths) => {
    const open = labels.map((label, i) => [label, depths[i]]).filter(([label]) => !spots.has(label));
    if (!open.length) return;
    const near = upright ? 0.15 : 0.4;
    const free = (lane) => open.every(([, depth]) => used.every((each) => each.lane !== lane || Math.abs(each.depth - depth) > near));
    let lane = 1;
    while (!free(lane)) lane = lane > 0 ? -lane : 1 - lane;
    for (const [label, depth] of open) {
      spots.set(label, { depth, lane });
      used.push({ lane, depth });
    }
  };
  for (const path of found.paths.slice(0, paths)) {
    const middles = path.steps.slice(0, -1).map((step) => step.to_label);
    put(middles, middles.map((_, i) => (i + 1) / (middles.length + 1)));
  }
  for (const { from, to } of lines) {
    const [one, other] = [spots.has(from), spots.has(to)];
    if (one && other) continue;
    if (!one && !other) put([from, to], [0.35, 0.65]);
    else {
      const { depth } = spots.get(one ? from : to), step = upright ? [0.17, 0.34][used.length % 2] : 0.3;
      put([one ? to : from], [depth < 0.5 ? Math.max(step, depth + 0.1) : Math.min(1 - step, depth - 0.1)]);
    }
  }
  return placed(spots, titles, room, upright);
}

function placed(spots, titles, room, upright) {
  const lanes = new Set([...spots.values()].map((spot) => spot.lane)).size;
  const longest = upright ? Math.max(12, Math.floor((Math.min(room, 420) / Math.min(lanes, 3) - 26) / 7)) : 24;
  const across = upright ? Math.max(112, (Math.min(room, 420) - 20) / Math.min(lanes, 3)) : 84;
  const along = upright ? 520 : Math.max(620, Math.min(room, 900) - 150);
  const boxes = new Map();
  for (const [label, { depth, lane }] of spots) {
    const text = shown(titles.get(label) ?? label, longest), [a, b] = [along * depth, across * lane];
    boxes.set(label, { x: upright ? b : a, y: upright ? a : b, width: 18 + 7.4 * text.length, height: 30, text });
  }
  return boxes;
}

function lineOf(line) {
  const { points, kind, weight, fact } = line, end = points.at(-1), before = points.at(-3) ?? points[0];
  const turn = Math.atan2(end.y - before.y, end.x - before.x), size = kind === "path" ? 8 : 10;
  const corner = (by) => `${end.x - size * Math.cos(turn + by)} ${end.y - size * Math.sin(turn + by)}`;
  const path = `M${points.map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("L")}`;
  return draw("a", { href: kind === "asked" ? null : whyAt(fact), class: `line ${kind}`, "aria-label": sentence(fact, 60) },
    draw("title", {}, sentence(fact, 120)), draw("path", { class: "reach", d: path }),
    draw("path", { class: "stroke", d: path, "stroke-width": kind === "carried" ? 1.5 + 3.5 * weight : kind === "asked" ? 2 : 1.3 }),
    draw("path", { class: "tip", d: `M${end.x} ${end.y}L${corner(0.42)}L${corner(-0.42)}z` }));
}

function labelOf({ label, kind }) {
  if (!label) return null;
  const { x, y, width, height, text } = label;
  return draw("g", { class: `line-label ${kind}` }, draw("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 4 }), draw("text", { x, y: y + 4, "text-anchor": "middle" }, text));
}

function boxOf(label, { x, y, width, height, text }, found) {
  const end = label === found.head_label || label === found.tail_label;
  return draw("a", { href: entityAt(label), class: end ? "box end" : "box" }, draw("title", {}, shown(label, 200)),
    draw("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 7 }), draw("text", { x, y: y + 5, "text-anchor": "middle" }, text));
}

const KINDS = { asked: "the link that is asked about", carried: "an edge that carried it; the thicker, the more", path: "an edge of a path between the two" };

function legend(lines) {
  const kinds = Object.keys(KINDS).filter((kind) => lines.some((line) => line.kind === kind));
  const numbered = lines.filter((line) => line.number);
  return make("figcaption", { class: "legend" }, ...kinds.map((kind) => make("span", {}, swatch(kind), ` ${KINDS[kind]}`)),
    ...numbered.map((line) => make("span", { class: "numbered" }, make("b", {}, String(line.number)), ` ${sentence(line.fact, 40)}`)));
}

const swatch = (kind) => draw("svg", { class: `swatch ${kind}`, width: 34, height: 10, "aria-hidden": "true" }, draw("line", { class: "stroke", x1: 1, x2: 33, y1: 5, y2: 5, "stroke-width": kind === "carried" ? 4 : 2 }));
