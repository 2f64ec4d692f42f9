// The canvas: entities and links as Cytoscape.js draws them. What they mean and what is done with them is the view's.
import cytoscape from "../vendor/cytoscape/cytoscape.esm.min.mjs";
import { shown } from "../dom.js";
import { keyOf, percent } from "../words.js";
import { Colours, pageColours } from "./colours.js";
import { inLines, showNames } from "./naming.js";
import { fan, outside, ring, settled } from "./placing.js";

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

function styles(c) {
  return [
    { selector: "node", style: { width: "data(size)", height: "data(size)", "background-color": c.fill, "border-width": 2, "border-color": c.soft, label: "data(name)", color: c.ink,
      "font-size": "data(font)", "font-family": "system-ui, sans-serif", "text-valign": "bottom", "text-margin-y": 4, "text-wrap": "wrap", "text-max-width": 1000,
      "text-background-color": c.paper, "text-background-opacity": 0.85, "text-background-padding": 1, "min-zoomed-font-size": 6 } },
    { selector: "node.nameless", style: { label: "" } },
    { selector: "node.pointed, node.nameless:selected", style: { label: "data(name)", "z-index": 30 } },
    { selector: "node.centre", style: { "background-color": c.accent, "border-color": c.accent, "font-weight": "bold" } },
    { selector: "node.open", style: { "border-color": c.accent } },
    { selector: "node.pinned", style: { shape: "diamond" } },
    { selector: "edge", style: { width: 1.8, "line-color": "data(colour)", "target-arrow-color": "data(colour)", "target-arrow-shape": "triangle", "arrow-scale": 1, "curve-style": "bezier",
      "font-size": 10, "font-family": "system-ui, sans-serif", color: c.ink, "text-rotation": "autorotate", "text-background-color": c.paper, "text-background-opacity": 0.9, "text-background-padding": 2, "min-zoomed-font-size": 8 } },
    { selector: "edge.told", style: { label: "data(relation)" } },
    { selector: "edge.predicted", style: { "line-style": "dashed", "line-dash-pattern": [7, 5], width: 2, opacity: 0.95 } },
    { selector: "edge.outwards", style: { "target-label": "data(chance)", "target-text-offset": 46, "target-text-rotation": "autorotate" } },
    { selector: "edge.inwards", style: { "source-label": "data(chance)", "source-text-offset": 46, "source-text-rotation": "autorotate" } },
    { selector: "edge.predicted.told", style: { label: "data(both)", "source-label": "", "target-label": "" } },
    { selector: "edge.accept", style: { "line-style": "solid", "line-color": c.good, "target-arrow-color": c.good, width: 3 } },
    { selector: "edge.reject", style: { "line-color": c.bad, "target-arrow-color": c.bad, opacity: 0.35 } },
    { selector: "edge.defer", style: { opacity: 0.5 } },
    { selector: ":selected", style: { "overlay-color": c.accent, "overlay-opacity": 0.22, "overlay-padding": 5, "z-index": 20 } },
    { selector: "edge.hidden", style: { display: "none" } },
    { selector: "node.lonely", style: { opacity: 0.25 } },
  ];
}

export class Drawing {
  constructor(element, signal) {
    this.colours = new Colours();
    this.cy = cytoscape({ container: element, style: styles(pageColours()), minZoom: 0.1, maxZoom: 4, selectionType: "single", boxSelectionEnabled: false });
    signal.addEventListener("abort", () => this.cy.destroy(), { once: true });
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.cy.style(styles(pageColours())), { signal });
    let soon = 0;
    const names = () => { clearTimeout(soon); soon = setTimeout(() => this.cy.destroyed() || showNames(this.cy), 60); };
    this.cy.on("zoom resize add free", names);
    this.cy.on("position", "node", names);
    this.cy.on("mouseover", "node", (event) => event.target.addClass("pointed"));
    this.cy.on("mouseout", "node", (event) => event.target.removeClass("pointed"));
    this.cy.on("mouseover", "edge", (event) => event.target.addClass("told"));
    this.cy.on("mouseout", "edge", (event) => this.label(event.target));
    this.cy.on("select", "edge", (event) => event.target.addClass("told"));
    this.cy.on("unselect", "edge", (event) => this.label(event.target));
  }

  // Adds what is not there yet, around the entity that it was found at; the answer is how much is new.
  add({ entities, facts, predicted }, around = null) {
    const before = this.cy.elements().length, at = around && { ...this.cy.getElementById(around).position() }, taken = this.cy.nodes().map((node) => ({ ...node.position() }));
    const places = new Map(entities.map((each) => [each.label, each]));
    const named = (label, title) => places.get(label) ?? { label, title, facts: 1 };
    const nodes = new Map();
    for (const fact of [...facts, ...(predicted ?? [])]) {
      for (const end of ["head", "tail"]) nodes.set(fact[`${end}_label`], named(fact[`${end}_label`], fact[end]));
    }
    for (const each of entities) nodes.set(each.label, each);
    const fresh = [...nodes.values()].filter((each) => !this.cy.getElementById(each.label).length);
    const opened = around && this.cy.getElementById(around), moved = at && (opened.locked() ? at : outside(at, taken, fresh.length));
    if (moved && fresh.length) opened.position(moved);
    const places_ = at ? fan(fresh.map((each) => each.label), moved, taken) : null;
    for (const each of fresh) {
      this.cy.add({ group: "nodes", data: { id: each.label, title: shown(each.title, 60), name: inLines(each.title), font: 12, size: 14 + 5 * Math.min(5, Math.log10(1 + (each.facts ?? 1)) * 2), entity: each },
        position: places_?.get(each.label) ?? { x: 0, y: 0 } });
    }
    for (const fact of facts) this.link(fact, "known");
    const middle = around ?? entities.find((each) => each.distance === 0)?.label;  // numbers stand at the other end, where lines lie apart
    for (const fact of predicted ?? []) this.link(fact, `predicted ${fact.tail_label === middle ? "inwards" : "outwards"}`);
    this.relabel();
    return this.cy.elements().length - before;
  }

  link(fact, kind) {
    const id = keyOf(fact);
    if (this.cy.getElementById(id).length) return;
    const chance = kind === "known" ? "" : percent(fact.probability);
    this.cy.add({ group: "edges", classes: [kind, fact.decision ?? ""].filter(Boolean).join(" "), data: { id, source: fact.head_label, target: fact.tail_label, colour: this.colours.of(fact.relation_label),
      relation: shown(fact.relation, 40), chance, both: `${shown(fact.relation, 40)} ${chance}`, fact } });
  }

  // Few links are all named; among many only what is chosen or pointed at.
  relabel() {
    this.few = this.cy.edges(".known").length <= 24 && this.cy.width() > 500;
    this.cy.edges().forEach((edge) => this.label(edge));
  }

  label(edge) {
    edge.toggleClass("told", edge.selected() || (this.few && edge.hasClass("known")));
  }

  // Rings around the centre, relation by relation.
  rings(centre) {
    const nodes = this.cy.nodes().toArray(), order = new Map();
    this.cy.edges().forEach((edge) => { for (const end of [edge.source().id(), edge.target().id()]) if (!order.has(end)) order.set(end, edge.data("fact").relation_label); });
    const sorted = nodes.map((node) => node.id()).sort((a, b) => String(order.get(a)).localeCompare(String(order.get(b))));
    const places = ring(sorted, centre, { width: this.cy.width(), height: this.cy.height() });
    nodes.forEach((node) => node.position(places.get(node.id())));
    this.fit(20);
  }

  // By forces, for what has grown.
  arrange() {
    return new Promise((done) => {
      const layout = this.cy.layout({ name: "cose", randomize: true, animate: false, fit: true, padding: 40, nodeRepulsion: () => (this.cy.nodes().length > 40 ? 90000 : 24000), idealEdgeLength: () => (this.cy.nodes().length > 40 ? 150 : 105), edgeElasticity: () => 120,
        gravity: 0.35, nodeOverlap: 24, componentSpacing: 90, numIter: 900 });
      layout.one("layoutstop", () => {
        this.settle();
        done();
      });
      layout.run();
    });
  }

  // As wide and as high as the canvas is, with room for every name.
  settle() {
    const nodes = this.cy.nodes().toArray(), places = settled(nodes.map((node) => ({ id: node.id(), ...node.position() })), this.cy.width() / this.cy.height());
    nodes.forEach((node, at) => node.position({ x: places[at].x, y: places[at].y }));
    this.fit(30);
  }

  // After an expansion: what came is seen, with all the rest where that stays readable.
  see(label) {
    const eles = this.cy.nodes().length <= 45 ? this.cy.elements() : this.cy.getElementById(label).closedNeighborhood();
    this.cy.animate({ fit: { eles, padding: 30 } }, { duration: still() ? 0 : 250 });
  }

  choose(element) {
    this.cy.elements(":selected").unselect();
    element.select();
    const shownAt = this.cy.extent(), at = element.isNode() ? element.position() : element.midpoint();
    if (at.x < shownAt.x1 || at.x > shownAt.x2 || at.y < shownAt.y1 || at.y > shownAt.y2) this.cy.animate({ center: { eles: element } }, { duration: still() ? 0 : 200 });
  }

  // The nearest entity in a direction, for the arrow keys.
  step(dx, dy) {
    const from = this.cy.nodes(":selected")[0] ?? this.cy.nodes(".centre")[0];
    if (!from) return;
    const p = from.position();
    let best = null;
    this.cy.nodes().forEach((node) => {
      const q = node.position(), along = (q.x - p.x) * dx + (q.y - p.y) * dy, across = Math.abs((q.x - p.x) * dy) + Math.abs((q.y - p.y) * dx);
      if (node !== from && along > 1 && (!best || along + 2 * across < best.far)) best = { node, far: along + 2 * across };
    });
    this.choose(best ? best.node : from);
  }

  nextPredicted(step = 1) {
    const open = this.cy.edges(".predicted").filter((edge) => edge.visible());
    if (!open.length) return false;
    const now = open.toArray().findIndex((edge) => edge.selected());
    this.choose(open[(now + step + open.length) % open.length]);
    return true;
  }

  pin(node) {
    node.locked() ? node.unlock() : node.lock();
    node.toggleClass("pinned", node.locked());
  }

  zoom(factor) {
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
  }

  fit(padding = 40) {
    this.cy.fit(this.cy.elements(), padding);
  }

  hide(relations) {
    this.cy.batch(() => {
      this.cy.edges().forEach((edge) => edge.toggleClass("hidden", relations.has(edge.data("fact").relation_label)));
      this.cy.nodes().forEach((node) => node.toggleClass("lonely", node.connectedEdges().length > 0 && node.connectedEdges().every((edge) => edge.hasClass("hidden"))));
    });
  }

  decided(key, choice) {
    const edge = this.cy.getElementById(key);
    edge.removeClass("accept reject defer");
    if (choice) edge.addClass(choice);
  }

  // What brings a canvas back as it was left.
  kept() {
    const positions = Object.fromEntries(this.cy.nodes().map((node) => [node.id(), node.position()]));
    return { positions, pinned: this.cy.nodes(".pinned").map((node) => node.id()), zoom: this.cy.zoom(), pan: { ...this.cy.pan() } };
  }

  back({ positions, pinned, zoom, pan }) {
    this.cy.nodes().forEach((node) => positions[node.id()] && node.position(positions[node.id()]));
    pinned.forEach((id) => this.cy.getElementById(id).length && this.pin(this.cy.getElementById(id)));
    this.cy.viewport({ zoom, pan });
  }
}
