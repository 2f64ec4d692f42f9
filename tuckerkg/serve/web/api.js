// The page of the API: every route of the service's own OpenAPI document, with what goes in, comes out, and an example.
import { link, make, shown, soft } from "./dom.js";
import { API, get } from "./service.js";
import { problemView } from "./views/problem.js";

const view = document.getElementById("view"), METHODS = ["get", "post", "put", "patch", "delete"];

async function show() {
  try {
    const document_ = await get("/openapi.json");
    const routes = Object.entries(document_.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => ({ path, method, ...item[method] })));
    const tags = [...new Set(routes.map((route) => route.tags?.[0] ?? "service"))];
    view.replaceChildren(
      make("h1", {}, "API"),
      make("p", { class: "lead" }, shown(document_.info.summary ?? document_.info.description ?? "", 400)),
      soft(`Version ${shown(document_.info.version)}. `, link("The document as OpenAPI", `${API}/openapi.json`), ", for generated clients."),
      ...tags.flatMap((tag) => [make("h2", {}, shown(tag)), ...routes.filter((route) => (route.tags?.[0] ?? "service") === tag).map((route) => block(route, document_))]));
    const wanted = location.hash.slice(1);
    if (wanted) document.getElementById(wanted)?.setAttribute("open", "");
  } catch (error) {
    view.replaceChildren(...problemView(error, show).flat().filter(Boolean));
  }
}

function block(route, document_) {
  const parameters = [...(route.parameters ?? [])];
  const body = route.requestBody?.content?.["application/json"]?.schema, answer = route.responses?.["200"] ?? route.responses?.["202"] ?? route.responses?.["201"];
  const given = answer?.content?.["application/json"]?.schema;
  const example = body ? sample(body, document_) : null;
  const words = ["curl", ...(route.method === "get" ? [] : ["-X", route.method.toUpperCase()]), ...(example === null ? [] : ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(example).replaceAll("'", "'\\''")}'`]), `'${location.origin}${route.path}${queryOf(parameters, document_)}'`];
  return make("details", { class: "route", id: route.operationId },
    make("summary", {}, make("span", { class: `method ${route.method}` }, route.method.toUpperCase()), make("span", { class: "path" }, shown(route.path)), make("span", { class: "soft" }, shown((route.description ?? route.summary ?? "").split("\n")[0], 160))),
    (route.description ?? "").includes("\n") ? make("p", {}, shown(route.description, 1000)) : null,
    parameters.length ? make("div", { class: "table" }, make("table", {}, make("thead", {}, make("tr", {}, ...["parameter", "type", "what"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...parameters.map((each) => make("tr", {}, make("th", { scope: "row" }, make("code", {}, shown(each.name)), each.required ? " (required)" : ""), make("td", {}, typeOf(each.schema, document_)), make("td", {}, shown(each.description ?? each.schema?.description ?? "", 300))))))) : null,
    make("h3", {}, "Try it"), make("pre", {}, make("code", {}, words.join(" "))),
    body ? [make("h3", {}, "Body"), make("pre", {}, make("code", {}, written(body, document_)))] : null,
    given ? [make("h3", {}, "Answer"), make("pre", {}, make("code", {}, written(given, document_)))] : null);
}

const resolve = (schema, document_) => (schema?.$ref ? schema.$ref.split("/").slice(1).reduce((at, name) => at?.[name], document_) : schema) ?? {};

function queryOf(parameters, document_) {
  const needed = parameters.filter((each) => each.in === "query" && each.required).map((each) => `${each.name}=${encodeURIComponent(each.example ?? sample(each.schema, document_))}`);
  return needed.length ? `?${needed.join("&")}` : "";
}

function typeOf(schema, document_) {
  const found = resolve(schema, document_);
  if (found.enum) return found.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  const many = found.anyOf ?? found.oneOf;
  if (many) return many.map((each) => typeOf(each, document_)).join(" | ");
  if (found.type === "array") return `[${typeOf(found.items ?? {}, document_)}]`;
  return found.type ?? "any";
}

// A schema as an outline that people read: names and types, one level within another.
function written(schema, document_, indent = "", depth = 0) {
  const found = resolve(schema, document_), deeper = `${indent}  `;
  const many = found.anyOf ?? found.oneOf;
  if (many) return many.map((each) => written(each, document_, indent, depth)).join(" | ");
  if (found.type === "array") return `[${written(found.items ?? {}, document_, indent, depth)}]`;
  if (found.properties && depth < 4) {
    const lines = Object.entries(found.properties).map(([name, each]) => `${deeper}${name}${found.required?.includes(name) ? "" : "?"}: ${written(each, document_, deeper, depth + 1)}`);
    return `{\n${lines.join("\n")}\n${indent}}`;
  }
  return typeOf(found, document_);
}

function sample(schema, document_, depth = 0) {
  const found = resolve(schema, document_);
  const own = found.examples?.[0] ?? found.example ?? found.default;
  if (own !== undefined && own !== null) return own;
  if (found.enum) return found.enum[0];
  const many = found.anyOf ?? found.oneOf;
  if (many) return sample(many.find((each) => resolve(each, document_).type !== "null") ?? many[0], document_, depth);
  if (found.type === "array") return depth > 3 ? [] : [sample(found.items ?? {}, document_, depth + 1)];
  if (found.properties) {
    const names = Object.keys(found.properties), needed = found.required ?? names.slice(0, 2);
    return depth > 3 ? {} : Object.fromEntries(names.filter((name) => needed.includes(name)).map((name) => [name, sample(found.properties[name], document_, depth + 1)]));
  }
  return { integer: 1, number: 0.5, boolean: true }[found.type] ?? "…";
}

show();
