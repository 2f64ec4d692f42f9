// A colour per relation, which it keeps while the canvas is open; and the colours of the page for what is drawn.

const PALETTE = ["#3b7dd8", "#e07b39", "#2a9d6f", "#b65fcf", "#c09a1c", "#d1495b", "#2b9eb3", "#96713a", "#7168dd", "#7a9e2e", "#d46a9f", "#64808f",
  "#4f6bb0", "#b5502d", "#1f7d63", "#8f3fb0", "#a08a4a", "#e0677f", "#3f8fb8", "#a0764f"];
const REST = "#8b949e";

export class Colours {
  constructor() {
    this.known = new Map();
  }

  of(relation) {
    if (!this.known.has(relation)) this.known.set(relation, PALETTE[this.known.size] ?? REST);
    return this.known.get(relation);
  }
}

export function pageColours() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: read("ink"), paper: read("paper"), soft: read("soft"), line: read("line"), fill: read("fill"), accent: read("accent"), guess: read("guess"), good: read("good"), bad: read("bad") };
}
