// Names on the canvas: as large on the screen at any zoom, and none upon another; what has no room for its name shows it when it is
// pointed at or chosen.
import { shown } from "../dom.js";

const SIZE = 12, LEAST = 11, LINE = 18, LINES = 3;  // of letters, in pixels; of lines, in letters
const pen = document.createElement("canvas").getContext("2d");

// Names are broken between words; a word that is longer than a line is cut.
export function inLines(title) {
  const lines = [""];
  for (const word of shown(title, 60).split(" ").map((each) => shown(each, LINE))) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length <= LINE) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const kept = lines.filter(Boolean);
  return kept.length > LINES ? `${kept.slice(0, LINES).join("\n")}…` : kept.join("\n");
}

function boxOf(node, size, bold) {
  const lines = node.data("name").split("\n"), { x, y } = node.position(), below = y + node.height() / 2 + 4;
  pen.font = `${bold ? "bold " : ""}${size}px system-ui, sans-serif`;
  const width = Math.max(...lines.map((line) => pen.measureText(line).width)) + 4;
  return { left: x - width / 2, right: x + width / 2, top: below, bottom: below + 1.15 * size * lines.length };
}

const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// The centre, what is expanded, then what has most facts: each gets its name where that lies on no other name, and on no other entity.
export function showNames(cy) {
  const size = Math.max(SIZE, LEAST / cy.zoom());
  const weight = (node) => (node.hasClass("centre") ? 1e9 : node.selected() ? 1e8 : node.hasClass("open") ? 1e7 : 0) + (node.data("entity").facts ?? 0);
  const nodes = cy.nodes().toArray().sort((a, b) => weight(b) - weight(a)), taken = [];
  const discs = nodes.map((node) => ({ node, x: node.position("x"), y: node.position("y"), r: node.width() / 2 }));
  const covers = (box, node) => discs.some((disc) => disc.node !== node && meet(box, { left: disc.x - disc.r, right: disc.x + disc.r, top: disc.y - disc.r, bottom: disc.y + disc.r }));
  cy.batch(() => {
    for (const node of nodes) {
      const box = boxOf(node, size, node.hasClass("centre")), first = !taken.length;
      const fits = first || !(taken.some((other) => meet(box, other)) || covers(box, node));
      if (fits) taken.push(box);
      node.data("font", size);
      node.toggleClass("nameless", !fits);
    }
  });
}
