// The canvas as a file: PNG as it is drawn, SVG made of elements and text nodes.
import { draw } from "../dom.js";
import { keepFile } from "../service.js";
import { pageColours } from "./colours.js";

const ROOM = 40;

export function savePng(cy, name) {
  keepFile(cy.png({ output: "blob", full: true, scale: 2, bg: pageColours().paper, maxWidth: 6000, maxHeight: 6000 }), `${name}.png`);
}

export function saveSvg(cy, name) {
  keepFile(new Blob([new XMLSerializer().serializeToString(asSvg(cy))], { type: "image/svg+xml" }), `${name}.svg`);
}

export function asSvg(cy) {
  const c = pageColours(), box = cy.elements(":visible").boundingBox(), text = { "font-family": "sans-serif", fill: c.ink, "text-anchor": "middle" };
  const edges = cy.edges(":visible").map((edge) => line(edge, text, c)).flat();
  const nodes = cy.nodes(":visible").map((node) => {
    const { x, y } = node.position(), r = node.width() / 2;
    return [draw("circle", { cx: x, cy: y, r, fill: node.hasClass("centre") ? c.accent : c.fill, stroke: node.hasClass("centre") ? c.accent : c.soft, "stroke-width": 2 }),
      draw("text", { ...text, x, y: y + r + 15, "font-size": 12 }, node.data("title"))];
  }).flat();
  const [x, y, width, height] = [box.x1 - ROOM, box.y1 - ROOM, box.w + 2 * ROOM, box.h + 2 * ROOM].map(Math.round);
  return draw("svg", { viewBox: `${x} ${y} ${width} ${height}`, width, height }, draw("rect", { x, y, width, height, fill: c.paper }), ...edges, ...nodes);
}

function line(edge, text, c) {
  const a = edge.sourceEndpoint(), b = edge.targetEndpoint(), via = edge.controlPoints()?.[0], colour = edge.hasClass("accept") ? c.good : edge.hasClass("reject") ? c.bad : edge.data("colour");
  const from = via ?? a, turn = Math.atan2(b.y - from.y, b.x - from.x), corner = (by) => `${b.x - 10 * Math.cos(turn + by)} ${b.y - 10 * Math.sin(turn + by)}`;
  const dashed = edge.hasClass("predicted") && !edge.hasClass("accept"), at = edge.midpoint(), words = edge.hasClass("predicted") ? edge.data("both") : edge.data("relation");
  return [
    draw("path", { d: `M${a.x} ${a.y}${via ? `Q${via.x} ${via.y} ` : "L"}${b.x} ${b.y}`, fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dashed ? "7 5" : null }),
    draw("path", { d: `M${b.x} ${b.y}L${corner(0.4)}L${corner(-0.4)}z`, fill: colour }),
    draw("text", { ...text, x: at.x, y: at.y + 3, "font-size": 9, stroke: c.paper, "stroke-width": 3, "paint-order": "stroke" }, words),
  ];
}
