// Where entities begin on the canvas: rings around one, a fan around what is expanded; what lies stays where it lies.

const GOLDEN = 2.399963;

// Entities of one relation stand together; two rings, so that names have room.
export function ring(nodes, centre, room) {
  const places = new Map([[centre, { x: 0, y: 0 }]]);
  const wide = Math.max(150, room.width / 2 - 70), high = Math.max(150, room.height / 2 - 45), others = nodes.filter((id) => id !== centre);
  others.forEach((id, at) => {
    const angle = (2 * Math.PI * at) / others.length - Math.PI / 2, far = others.length > 9 && at % 2 ? 0.62 : 1;
    places.set(id, { x: wide * far * Math.cos(angle), y: high * far * Math.sin(angle) });
  });
  return places;
}

// Where an expanded entity moves to, so that what comes has room: out of the crowd, in the direction in which it lies.
export function outside(at, taken, count) {
  if (taken.length < 9 || count < 4) return at;
  const middle = middleOf(taken), far = Math.max(...taken.map((p) => Math.hypot(p.x - middle.x, p.y - middle.y)));
  const [dx, dy] = [at.x - middle.x, at.y - middle.y], own = Math.hypot(dx, dy) || 1, to = far + 120 + 9 * Math.min(count, 20);
  return own >= to ? at : { x: middle.x + (dx / own) * to, y: middle.y + (dy / own) * to };
}

const middleOf = (points) => ({ x: points.reduce((sum, p) => sum + p.x, 0) / (points.length || 1), y: points.reduce((sum, p) => sum + p.y, 0) / (points.length || 1) });

// New entities around the one that was expanded, away from the middle of the rest, pushed off what is there.
export function fan(fresh, at, taken) {
  const middle = middleOf(taken);
  const away = Math.atan2(at.y - middle.y, at.x - middle.x), spread = Math.min(1.6 * Math.PI, 0.5 + 0.28 * fresh.length);
  const placed = fresh.map((id, place) => {
    const part = fresh.length === 1 ? 0 : place / (fresh.length - 1) - 0.5, far = 130 + 3 * fresh.length + 60 * (place % 3);
    return { id, x: at.x + far * Math.cos(away + spread * part), y: at.y + far * Math.sin(away + spread * part) };
  });
  for (let round = 0; round < 80; round++) for (const one of placed) push(one, [...taken, ...placed.filter((other) => other !== one)]);
  return new Map(placed.map(({ id, x, y }) => [id, { x, y }]));
}

// The same picture as wide as what it is drawn on, whose names do not lie on each other.
export function settled(places, aspect) {
  if (places.length < 3) return places;
  const span = (axis) => Math.max(...places.map((p) => p[axis])) - Math.min(...places.map((p) => p[axis])) || 1;
  const wider = Math.sqrt(aspect / (span("x") / span("y"))), found = places.map((p) => ({ ...p, x: p.x * wider, y: p.y / wider }));
  for (let round = 0; round < 120; round++) for (const one of found) push(one, found.filter((other) => other !== one));
  return found;
}

const APART = { x: 95, y: 48 };  // names are wider than high

function push(one, others) {
  for (const other of others) {
    const dx = (one.x - other.x) / APART.x, dy = (one.y - other.y) / APART.y, far = Math.hypot(dx, dy);
    if (far >= 1) continue;
    const angle = far > 0.01 ? Math.atan2(dy, dx) : GOLDEN * one.id.length;
    one.x += 0.35 * (1 - far) * APART.x * Math.cos(angle);
    one.y += 0.35 * (1 - far) * APART.y * Math.sin(angle);
  }
}
