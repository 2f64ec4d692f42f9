// Charts as SVG: the curve of training, whose axis begins at 0, and how far probabilities hold.
import { draw } from "../dom.js";

const WIDTH = 460, HEIGHT = 250, LEFT = 66, BELOW = 46, ABOVE = 12, RIGHT = 26;

function frame(title, mostX, mostY, xWords, yWords, asX, asY, leastX = 0) {
  const x = (v) => LEFT + ((v - leastX) / (mostX - leastX || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (v) => HEIGHT - BELOW - (v / (mostY || 1)) * (HEIGHT - BELOW - ABOVE);
  const picture = draw("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (let part = 0; part <= 4; part++) {
    const [vx, vy] = [leastX + ((mostX - leastX) * part) / 4, (mostY * part) / 4];
    picture.append(
      draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(vy), y2: y(vy) }),
      draw("text", { class: "label", x: LEFT - 6, y: y(vy) + 4, "text-anchor": "end" }, asY(vy)),
      draw("text", { class: "label", x: x(vx), y: HEIGHT - BELOW + 18, "text-anchor": "middle" }, asX(vx)));
  }
  picture.append(
    draw("text", { class: "label", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xWords),
    draw("text", { class: "label", x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${(HEIGHT - BELOW + ABOVE) / 2}) rotate(-90)` }, yWords));
  return { picture, x, y };
}

const niceTop = (value) => {
  const unit = 10 ** Math.floor(Math.log10(value || 1));
  return unit * [1, 2, 2.5, 5, 10].find((step) => unit * step >= value);
};
const short = (value) => String(Math.round(value * 100) / 100);

export function curve(points, title = "MRR on validation facts while training") {
  const top = Math.min(1, niceTop(Math.max(...points.map((p) => p[1]), 0.001)));
  const { picture, x, y } = frame(title, Math.max(...points.map((p) => p[0]), 1), top, "epochs of training", "MRR on validation", short, (v) => v.toFixed(top < 0.1 ? 3 : 2));
  picture.append(draw("polyline", { class: "curve", points: points.map((p) => `${x(p[0])},${y(p[1])}`).join(" ") }));
  for (const [a, b] of points) picture.append(draw("circle", { class: "dot", cx: x(a), cy: y(b), r: 3 }, draw("title", {}, `epoch ${short(a)}: ${b.toFixed(3)}`)));
  return picture;
}

export function reliability(bins) {
  const asPercent = (v) => `${Math.round(100 * v)} %`;
  const { picture, x, y } = frame("Of the links with a probability, how many were true", 1, 1, "probability that was said", "share that was true", asPercent, asPercent);
  picture.append(draw("line", { class: "fair", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  picture.append(draw("polyline", { class: "curve", points: bins.map((b) => `${x(b.said)},${y(b.true)}`).join(" ") }));
  for (const bin of bins) {
    const words = `said ${asPercent(bin.said)}, true ${asPercent(bin.true)}${bin.count ? `, ${bin.count} links` : ""}`;
    picture.append(draw("circle", { class: "dot", cx: x(bin.said), cy: y(bin.true), r: 3.5 }, draw("title", {}, words)));
  }
  return picture;
}
