// The canvas: the graph around an entity, to explore and to decide on.
import { changed, entityAt, whyAt } from "../addresses.js";
import { Drawing } from "../canvas/drawing.js";
import { legend } from "../canvas/legend.js";
import { listing } from "../canvas/listing.js";
import { savePng, saveSvg } from "../canvas/saving.js";
import { decide, decisionButtons, undo } from "../decide.js";
import { button, link, make, shown, soft } from "../dom.js";
import { keysOfView } from "../keys.js";
import { note, say } from "../notes.js";
import { copyAs, rowsOfFacts } from "../parts/copying.js";
import { choice } from "../parts/filters.js";
import { probabilityBar } from "../parts/links.js";
import { Problem, recall } from "../service.js";
import { bus, may } from "../session.js";
import { many, percent, sentence } from "../words.js";

const FACTS = () => (window.innerWidth < 600 ? 14 : 30);

export async function graphView({ parts: [label], options, signal, place }) {
  if (!label) throw new Problem(404, { detail: "There is no such page here." });
  const hops = Number(options.hops) || 1;
  const first = await around(label, hops, signal);
  const centre = first.entities.find((each) => each.distance === 0) ?? first.entities[0];
  const canvas = new Canvas(centre, signal, place);
  setTimeout(() => signal.aborted || canvas.begin(first, label), 0);  // the drawing needs an element with a size
  const steps = choice("Steps outwards", String(hops), [["1", "1"], ["2", "2"], ["3", "3"]], (next) => { location.hash = changed({ hops: next }); });
  return [
    make("div", { class: "title-row" }, make("h1", {}, `Around ${shown(centre.title, 80)}`), link("Facts as a table", entityAt(centre.label), { class: "button" })),
    make("div", { class: "canvas-frame" },
      make("div", { class: "canvas-tools", role: "toolbar", "aria-label": "Canvas" }, steps, ...canvas.tools()),
      make("div", { class: "canvas-place" }, canvas.element, canvas.onEdge),
      make("aside", { class: "canvas-beside", "aria-label": "What is chosen, and the legend" }, canvas.chosen, make("h2", {}, "Relations"), canvas.legend)),
    canvas.list,
    copyAs("/neighbourhood", { query: { entity: label, hops, limit: FACTS(), predicted: true }, csv: () => rowsOfFacts(canvas.facts(), ["probability"]), name: "canvas.csv" }),
  ];
}

const around = (label, hops, signal) => recall("GET", "/neighbourhood", { entity: label, hops, limit: FACTS() * hops, predicted: true }, signal);

class Canvas {
  constructor(centre, signal, place) {
    Object.assign(this, { centre, signal, place, hidden: new Set(place.hidden ?? []), open: new Set() });
    this.element = make("div", { class: "canvas", tabindex: 0, role: "application", "aria-label": `Canvas around ${shown(centre.title, 60)}. Arrow keys choose, Enter expands, N chooses the next predicted link; a list of everything follows.`, onkeydown: (event) => this.arrows(event) });
    this.onEdge = make("div", { class: "on-edge", hidden: true });
    this.chosen = make("div", { class: "chosen", "aria-live": "polite" });
    this.legend = make("div", {});
    this.inside = make("div", {});
    this.summary = make("summary", {}, "As a list");
    this.list = make("details", { class: "as-list", ontoggle: () => this.list.open && this.relist() }, this.summary, this.inside);
  }

  async begin(first, label) {
    this.drawing = new Drawing(this.element, this.signal);
    const { cy } = this.drawing;
    this.element.canvas = cy;  // for tests and the curious
    this.drawing.add(first);
    cy.getElementById(this.centre.label).addClass("centre open");
    this.open.add(label);
    cy.on("dbltap", "node", (event) => this.expand(event.target.id()));
    cy.on("select unselect", () => this.show());
    cy.on("tap", (event) => event.target === cy && cy.elements(":selected").unselect());
    cy.on("pan zoom position resize", () => this.follow());
    bus.addEventListener("decided", (event) => this.marked(event.detail.changes), { signal: this.signal });
    this.signal.addEventListener("abort", () => this.keep(), { once: true });
    keysOfView(this.keys(), this.signal);
    for (const each of this.place.open ?? []) if (each !== label) await this.expand(each, false);
    if (this.place.canvas) this.drawing.back(this.place.canvas);
    else if (first.entities.every((each) => each.distance < 2)) this.drawing.rings(this.centre.label);
    else await this.drawing.arrange();
    this.changed();
    this.show();
    window.addEventListener("pagehide", () => this.keep(), { signal: this.signal });
    const kept = this.drawing.cy;
    kept.on("pan zoom free", () => this.keep());
  }

  keep() {
    if (this.drawing && !this.drawing.cy.destroyed()) Object.assign(this.place, { canvas: this.drawing.kept(), open: [...this.open], hidden: [...this.hidden] });
  }

  tools() {
    const tool = (text, words, act) => button(text, act, { title: words, "aria-label": words });
    const name = () => shown(this.centre.title, 40).replace(/[^\p{L}\p{N}]+/gu, "-");
    return [tool("+", "Zoom in", () => this.drawing.zoom(1.3)), tool("−", "Zoom out", () => this.drawing.zoom(1 / 1.3)), tool("Fit", "Show everything", () => this.drawing.fit()),
      tool("Arrange", "Arrange again", () => this.drawing.arrange()), tool("SVG", "Save as SVG", () => saveSvg(this.drawing.cy, name())), tool("PNG", "Save as PNG", () => savePng(this.drawing.cy, name()))];
  }

  async expand(label, arrange = true) {
    this.element.classList.add("busy");
    try {
      const found = await around(label, 1, this.signal), fresh = this.drawing.add(found, label);
      this.open.add(label);
      this.drawing.cy.getElementById(label).addClass("open");
      if (arrange) {
        if (fresh) this.drawing.see(label);
        say(fresh ? `${many(found.facts.length, "fact")} around ${found.entities[0]?.title ?? label}` : "Nothing more is known around it.");
        if (!fresh) note("Nothing more is known around it.", { key: "expand" });
        this.changed();
        this.keep();
      }
    } catch (error) {
      if (error.name !== "AbortError") note(error.message, { bad: true });
    } finally {
      this.element.classList.remove("busy");
    }
  }

  changed() {
    this.drawing.hide(this.hidden);
    this.legend.replaceChildren(legend(this.drawing, this.hidden, () => { this.drawing.hide(this.hidden); this.relist(); this.keep(); }));
    this.relist();
  }

  relist() {
    const { cy } = this.drawing;
    this.summary.textContent = `As a list: ${many(cy.nodes().length, "entity", "entities")}, ${many(cy.edges(":visible").length, "link")}`;
    if (this.list.open) this.inside.replaceChildren(...listing(this.drawing, { expand: (label) => this.expand(label) }, this.signal));
  }

  facts() {
    return this.drawing.cy.edges(":visible").map((edge) => edge.data("fact"));
  }

  // The panel of what is chosen, and the buttons on a predicted link.
  show() {
    const one = this.drawing.cy.elements(":selected")[0];
    this.onEdge.hidden = true;
    if (!one) return this.chosen.replaceChildren(soft("Double click an entity to expand it; drag to move; dashed links are predicted."));
    if (one.isNode()) {
      const entity = one.data("entity");
      return this.chosen.replaceChildren(make("h2", {}, link(entity.title, entityAt(entity.label))), soft([entity.type && shown(entity.type, 60), entity.facts ? many(entity.facts, "fact") : null].filter(Boolean).join(" · ")),
        make("p", { class: "buttons" }, button("Expand", () => this.expand(one.id())), button(one.locked() ? "Unpin" : "Pin", () => { this.drawing.pin(one); this.show(); this.keep(); })));
    }
    const fact = one.data("fact"), predicted = one.hasClass("predicted");
    this.chosen.replaceChildren(make("h2", {}, sentence(fact)), predicted ? probabilityBar(fact.probability) : soft("The graph holds this fact."), ...(predicted ? [decisionButtons(fact, this.signal)].filter(Boolean) : []), make("p", {}, link("why?", whyAt(fact))));
    if (predicted && may("decide")) {
      this.onEdge.replaceChildren(make("span", { class: "percent" }, percent(fact.probability)), decisionButtons(fact, this.signal));
      this.onEdge.hidden = false;
      this.follow();
    }
    return null;
  }

  follow() {
    const edge = this.drawing?.cy.edges(":selected")[0];
    if (this.onEdge.hidden || !edge) return;
    const { x, y } = edge.renderedMidpoint();
    this.onEdge.style.left = `${Math.max(70, Math.min(this.element.clientWidth - 70, x))}px`;
    this.onEdge.style.top = `${Math.max(10, Math.min(this.element.clientHeight - 40, y + 10))}px`;
  }

  marked(changes) {
    for (const [key, decision] of changes) this.drawing.decided(key, decision?.choice);
  }

  arrows(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!way || !this.drawing) return;
    event.preventDefault();
    this.drawing.step(...way);
  }

  keys() {
    const { cy } = this.drawing, node = () => cy.nodes(":selected")[0], edge = () => cy.edges(".predicted:selected")[0];
    const decided = (choice_) => () => edge() && decide([edge().data("fact")], choice_);
    return {
      Enter: ["expand the chosen entity", () => node() && this.expand(node().id())], n: ["next predicted link", () => this.drawing.nextPredicted() || say("There is no predicted link here.")],
      b: ["predicted link before", () => this.drawing.nextPredicted(-1)],
      ...(may("decide") ? { a: ["accept the chosen link", decided("accept")], r: ["reject it", decided("reject")], d: ["defer it", decided("defer")], z: ["undo", () => undo()] } : {}),
      p: ["pin the chosen entity", () => node() && (this.drawing.pin(node()), this.show(), this.keep())], f: ["show everything", () => this.drawing.fit()],
      "+": ["zoom in", () => this.drawing.zoom(1.3)], "-": ["zoom out", () => this.drawing.zoom(1 / 1.3)],
    };
  }
}
