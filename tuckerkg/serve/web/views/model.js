// The engineer's page: what the model is, how it was trained, its figures, how far its probabilities hold.
import { address } from "../addresses.js";
import { link, make, shown, soft } from "../dom.js";
import { copyAs } from "../parts/copying.js";
import { curve, reliability } from "../parts/charts.js";
import { get } from "../service.js";
import { METRICS, number, percent } from "../words.js";

export async function modelView({ signal }) {
  const about = await get("/run", {}, signal);
  const trusted = about.trust?.length ? about.trust : null, bins = trusted ?? binsOf(about.calibration);
  const written = (value) => (typeof value === "number" ? (Number.isInteger(value) ? number(value) : String(Math.round(1000 * value) / 1000)) : shown(value, 200));
  const counts = Object.entries(about.counts).filter(([, value]) => value !== null);
  const line = (name, value, tip = null) => make("tr", {}, make("th", { scope: "row", title: tip }, shown(name, 60)), make("td", { class: typeof value === "number" ? "number" : null }, written(value)));
  const figures = about.test ? Object.entries(about.test).filter(([name, value]) => METRICS[name] && typeof value === "number") : [];
  return [
    make("h1", {}, `The model of ${shown(about.title, 60)}`),
    make("div", { class: "columns" },
      make("section", {}, make("h2", {}, "The graph"), make("table", {}, make("tbody", {}, ...counts.map(([name, value]) => line(name, value))))),
      make("section", {}, make("h2", {}, "The model"), make("table", {}, make("tbody", {},
        line("version", about.run.version), line("checkpoint", about.run.checkpoint), ...Object.entries(about.model).map(([name, value]) => line(name, value))))),
      make("section", {}, make("h2", {}, "Figures on hidden facts"), figures.length
        ? make("table", {}, make("tbody", {}, ...figures.map(([name, value]) => make("tr", {}, make("th", { scope: "row", title: METRICS[name] }, name.toUpperCase()), make("td", { class: "number" }, value.toFixed(3)), make("td", { class: "soft" }, METRICS[name])))))
        : soft("Nothing was measured yet: tuckerkg evaluate does it."))),
    make("div", { class: "columns" },
      about.curve.length > 1 ? make("section", {}, make("h2", {}, "Training"), make("figure", {}, curve(about.curve)), soft("The axis begins at 0. The weights that are served are those of the best point.")) : null,
      bins.length ? make("section", {}, make("h2", {}, "Probabilities"), make("figure", {}, reliability(bins)),
        soft(`On the dashed line what is said is what is true. ${trusted ? "Counted on the answers to questions about hidden facts." : "Counted on validation facts."}`)) : null),
    trusted ? make("details", {}, make("summary", {}, "Said and true, as a table"), make("table", {}, make("thead", {}, make("tr", {}, ...["said", "true", "links"].map((name) => make("th", { scope: "col", class: "number" }, name)))),
      make("tbody", {}, ...trusted.map((each) => make("tr", {}, make("td", { class: "number" }, percent(each.said)), make("td", { class: "number" }, percent(each.true)), make("td", { class: "number" }, number(each.count))))))) : null,
    about.may.vectors ? make("p", {}, link("Entities on a map of their vectors", address(["map"]))) : null,
    copyAs("/run", { csv: about.curve.length ? () => [["epoch", "mrr"], ...about.curve] : false, name: "training.csv" }),
  ];
}

export const binsOf = (calibration) => (calibration?.bins ?? []).map((bin) => ({ said: bin.said ?? bin.confidence, true: bin.true ?? bin.accuracy, count: bin.count }));
