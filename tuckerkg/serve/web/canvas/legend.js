// The legend of the canvas: a colour per relation with its number of links; a press hides and shows them.
import { make, shown } from "../dom.js";
import { number } from "../words.js";

export function legend(drawing, hidden, changed) {
  const relations = new Map();
  drawing.cy.edges().forEach((edge) => {
    const { relation_label: label, relation } = edge.data("fact"), each = relations.get(label) ?? { title: relation, known: 0, predicted: 0 };
    each[edge.hasClass("predicted") ? "predicted" : "known"]++;
    relations.set(label, each);
  });
  const sorted = [...relations].sort(([, a], [, b]) => b.known + b.predicted - a.known - a.predicted);
  return make("ul", { class: "relations", "aria-label": "Relations: press to hide or show" }, ...sorted.map(([label, each]) => {
    const colour = make("span", { class: "colour", "aria-hidden": "true" });
    colour.style.backgroundColor = drawing.colours.of(label);
    const words = [each.known ? number(each.known) : "", each.predicted ? `${number(each.predicted)} predicted` : ""].filter(Boolean).join(", ");
    const press = () => {
      hidden.has(label) ? hidden.delete(label) : hidden.add(label);
      one.setAttribute("aria-pressed", String(!hidden.has(label)));
      changed();
    };
    const one = make("button", { type: "button", onclick: press, "aria-pressed": String(!hidden.has(label)) }, colour, shown(each.title, 50), make("span", { class: "soft" }, ` ${words}`));
    return make("li", {}, one);
  }));
}
