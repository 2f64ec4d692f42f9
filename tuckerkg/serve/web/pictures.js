// Pictures as SVG: a curve, a reliability diagram, an explanation.
import { draw, shown } from "./dom.js";

const WIDTH = 420, HEIGHT = 220, EDGE = 42;

function frame(title, xs, ys, xLabel, yLabel) {
  const [left, right] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  const x = (v) => EDGE + ((v - left) / (right - left || 1)) * (WIDTH - EDGE - 12);
  const y = (v) => HEIGHT - EDGE + 8 - ((v - low) / (high - low || 1)) * (HEIGHT - EDGE - 8);
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, width: WIDTH },
    draw("line", { class: "axis", x1: EDGE, x2: WIDTH - 8, y1: y(low), y2: y(low) }),
    draw("line", { class: "axis", x1: EDGE, x2: EDGE, y1: 4, y2: y(low) }),
    draw("text", { class: "label", x: EDGE - 4, y: y(low), "text-anchor": "end" }, low.toFixed(2)),
    draw("text", { class: "label", x: EDGE - 4, y: 12, "text-anchor": "end" }, high.toFixed(2)),
    draw("text", { class: "label", x: EDGE, y: HEIGHT - 18 }, String(Math.round(left * 100) / 100)),
    draw("text", { class: "label", x: WIDTH - 10, y: HEIGHT - 18, "text-anchor": "end" }, String(Math.round(right * 100) / 100)),
    draw("text", { class: "label", x: WIDTH / 2, y: HEIGHT - 4, "text-anchor": "middle" }, `${xLabel}; up: ${yLabel}`));
  return { picture, x, y };
}

export function curve(points, title, xLabel, yLabel) {
  const { picture, x, y } = frame(title, points.map((p) => p[0]), points.map((p) => p[1]), xLabel, yLabel);
  picture.append(draw("polyline", { class: "curve", points: points.map((p) => `${x(p[0])},${y(p[1])}`).join(" ") }));
  for (const [a, b] of points) picture.append(draw("circle", { class: "dot", cx: x(a), cy: y(b), r: 2.5 }));
  return picture;
}

export function reliability(bins) {
  const title = "Of the answers with a probability, how many were true";
  const { picture, x, y } = frame(title, [0, 1], [0, 1], "probability", "share that was true");
  picture.append(draw("line", { class: "fair", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  picture.append(draw("polyline", { class: "curve", points: bins.map((b) => `${x(b.confidence)},${y(b.accuracy)}`).join(" ") }));
  for (const bin of bins) picture.append(draw("circle", { class: "dot", cx: x(bin.confidence), cy: y(bin.accuracy), r: 2.5 }));
  return picture;
}

// Head left, tail right; what touches one of them beside it; paths through the middle.
export function explanation(found) {
  const places = layout(found);
  const heights = [...places.values()].map((p) => p.y);
  const top = Math.min(...heights) - 40, size = Math.max(...heights) - top + 40;
  const picture = draw("svg", { viewBox: `0 ${top} 900 ${size}`, role: "img", width: 900,
    "aria-label": `The edges that carried ${found.edges.length ? "the score" : "nothing"}, as listed below` },
    draw("defs", {}, draw("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" },
      draw("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }))));
  const labels = [], under = new Map();  // a relation is written along its edge, or under the neighbour that it leads to
  const edge = (from, to, label, kind, width = 1) => {
    const a = places.get(from), b = places.get(to);
    if (!a || !b || a === b) return;
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1, cut = Math.min(46, length / 3);
    const end = { x: b.x - ((b.x - a.x) / length) * cut, y: b.y - ((b.y - a.y) / length) * cut };
    picture.append(draw("line", { class: kind, x1: a.x, y1: a.y, x2: end.x, y2: end.y, "stroke-width": width, "marker-end": "url(#tip)" }));
    const neighbour = isEnd(from) ? to : from;
    const lines = under.get(neighbour) ?? new Set();
    if (isEnd(from) !== isEnd(to) && lines.size < 2) under.set(neighbour, lines.add(shown(label, 30)));
    else labels.push(draw("text", { class: "label", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 + 4, "text-anchor": "middle" }, shown(label, 36)));
  };
  const isEnd = (name) => name === found.head || name === found.tail;
  edge(found.head, found.tail, found.relation, "asked", 2);
  for (const path of found.paths.slice(0, 2))
    for (const [from, relation, to, forwards] of path.steps) forwards ? edge(from, to, relation, "path") : edge(to, from, relation, "path");
  const most = Math.max(0, ...found.edges.map((e) => e.loss));
  for (const e of found.edges) edge(e.head, e.tail, e.relation, "carried", most > 0 ? 1 + (4 * Math.max(e.loss, 0)) / most : 1);
  picture.append(...labels);
  for (const [name, { x, y }] of places) {
    picture.append(...box(x, y, name, [...(under.get(name) ?? [])], isEnd(name) ? "box end" : "box"));
  }
  return picture;
}

// One entity in the middle, those that its facts lead to around it; each is a link to its own view.
export function around(name, facts, addressOf) {
  const found = new Map();
  for (const fact of facts) {
    const [label, title] = fact.head_label === name ? [fact.tail_label, fact.tail] : [fact.head_label, fact.head];
    const each = found.get(label) ?? { title, lines: new Set() };
    if (each.lines.size < 2) each.lines.add(shown(fact.relation, 30));
    if (label !== name) found.set(label, each);
  }
  const centre = facts[0].head_label === name ? facts[0].head : facts[0].tail, rows = Math.ceil(found.size / 2), gap = 62;
  const height = Math.max(1, rows) * gap + 10, middle = height / 2;
  const picture = draw("svg", { viewBox: `0 0 900 ${height}`, role: "group", width: 900, "aria-label": `What ${shown(centre, 60)} is linked to, as listed below` });
  const boxes = [...found].map(([label, each], place) => {
    const left = place % 2 === 1, x = left ? 150 : 750, y = (Math.floor(place / 2) + 0.5) * gap + 5;
    picture.append(draw("line", { class: "path", x1: 450, y1: middle, x2: x, y2: y, "stroke-width": 1 }));
    return draw("a", { href: addressOf(label) }, ...box(x, y, each.title, [...each.lines]));
  });
  picture.append(...boxes, ...box(450, middle, centre, [], "box end"));
  return picture;
}

function box(x, y, name, lines, kind = "box") {
  const text = shown(name, 24), height = 26 + 13 * lines.length;
  const width = 14 + Math.max(7 * text.length, ...lines.map((line) => 6.3 * line.length));
  const top = y - height / 2;
  return [draw("rect", { class: kind, x: x - width / 2, y: top, width, height, rx: 6 }),
    draw("text", { x, y: top + 17, "text-anchor": "middle" }, text),
    ...lines.map((line, place) => draw("text", { class: "label", x, y: top + 31 + 13 * place, "text-anchor": "middle" }, line))];
}

function layout(found) {
  const columns = new Map();
  for (const e of found.edges)
    for (const [name, other] of [[e.head, e.tail], [e.tail, e.head]])
      if (!columns.has(name)) columns.set(name, other === found.head ? 270 : other === found.tail ? 630 : 450);
  for (const path of found.paths.slice(0, 2)) {
    const middles = path.steps.slice(0, -1).map((step) => step[2]);
    middles.forEach((name, place) => columns.has(name) || columns.set(name, middles.length === 2 ? [270, 630][place] : 450));
  }
  const places = new Map([[found.head, { x: 110, y: 0 }]]);
  if (!places.has(found.tail)) places.set(found.tail, { x: 790, y: 0 });
  const counts = new Map();
  for (const [name, x] of columns) {
    if (places.has(name)) continue;
    const row = counts.get(x) ?? 0;
    counts.set(x, row + 1);
    places.set(name, { x, y: (Math.floor(row / 2) + 1) * (row % 2 ? 70 : -70) });
  }
  return places;
}
