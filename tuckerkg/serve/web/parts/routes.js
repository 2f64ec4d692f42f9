// Where lines and their labels lie in the picture of an explanation: a line never runs through a box that it does not
// join, and a label lies on its own line alone, or is a number, or is left to the list below the picture.

const BENDS = [0, 26, -26, 52, -52, 90, -90, 140, -140, 200, -200], SAMPLES = 48;
const ALONG = [0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74, 0.2, 0.8, 0.15, 0.85];

const inside = (p, box, room = 0) => Math.abs(p.x - box.x) <= box.width / 2 + room && Math.abs(p.y - box.y) <= box.height / 2 + room;
const apart = (a, b) => Math.abs(a.x - b.x) >= (a.width + b.width) / 2 + 2 || Math.abs(a.y - b.y) >= (a.height + b.height) / 2 + 2;

function curveOf(a, b, bend) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const via = { x: (a.x + b.x) / 2 - ((b.y - a.y) / length) * bend, y: (a.y + b.y) / 2 + ((b.x - a.x) / length) * bend };
  const at = (t) => ({ x: (1 - t) ** 2 * a.x + 2 * t * (1 - t) * via.x + t * t * b.x, y: (1 - t) ** 2 * a.y + 2 * t * (1 - t) * via.y + t * t * b.y });
  const points = Array.from({ length: SAMPLES + 1 }, (_, i) => at(i / SAMPLES));
  return { via, at, points };
}

// ``boxes``: {x, y, width, height} by label; ``lines``: {from, to, text}. Adds to each line its points, ends and label.
export function route(boxes, lines) {
  const routed = [];
  for (const line of lines) {
    const a = boxes.get(line.from), b = boxes.get(line.to);
    const others = [...boxes.values()].filter((box) => box !== a && box !== b);
    let best = null;
    for (const bend of BENDS) {
      const found = a === b ? loopOf(a, bend) : curveOf(a, b, bend);
      const hits = found.points.filter((p) => others.some((box) => inside(p, box, 5))).length;
      const same = routed.some((other) => isPair(other, line) && Math.abs(other.turned - (line.from === other.from ? bend : -bend)) < 20);
      const cost = 100 * hits + (same ? 5000 : 0) + crossings(found.points, routed, boxes) * 8 + Math.abs(bend) / 10;
      if (!best || cost < best.cost) best = { ...found, bend, cost };
    }
    const free = best.points.filter((p) => !inside(p, a, 1) && !inside(p, b, 4));
    line.points = free.length > 3 ? free : best.points;
    line.at = best.at;
    line.turned = best.bend;
    routed.push(line);
  }
  placeLabels(boxes, lines);
  return lines;
}

const isPair = (a, b) => (a.from === b.from && a.to === b.to) || (a.from === b.to && a.to === b.from);

function loopOf(a, bend) {
  const size = 40 + Math.abs(bend) / 3, at = (t) => ({ x: a.x + size * Math.sin(2 * Math.PI * t) * 0.7, y: a.y - a.height / 2 - size * (1 - Math.cos(2 * Math.PI * t)) / 2 });
  return { at, points: Array.from({ length: SAMPLES + 1 }, (_, i) => at(i / SAMPLES)) };
}

function crossings(points, routed) {
  let found = 0;
  for (const other of routed) if (points.some((p) => other.points.some((q) => Math.hypot(p.x - q.x, p.y - q.y) < 9))) found++;
  return found;
}

function placeLabels(boxes, lines) {
  const placed = [];
  let numbers = 0;
  for (const line of lines) {
    const whole = spot(line, line.text.length * 6.3 + 8, 16, boxes, lines, placed);
    line.label = whole ? { ...whole, text: line.text } : null;
    if (!line.label) {
      line.number = ++numbers;
      const small = spot(line, 20, 18, boxes, lines, placed);
      line.label = small ? { ...small, text: String(line.number) } : null;
    }
    if (line.label) placed.push(line.label);
  }
}

function spot(line, width, height, boxes, lines, placed) {
  for (const t of ALONG) {
    const p = line.points[Math.round(t * (line.points.length - 1))];
    const box = { x: p.x, y: p.y, width, height };
    if ([...boxes.values()].some((other) => !apart(box, other))) continue;
    if (placed.some((other) => !apart(box, other))) continue;
    if (lines.some((other) => other !== line && other.points.some((q) => inside(q, box, 3)))) continue;
    return box;
  }
  return null;
}
