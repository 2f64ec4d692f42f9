// "Copy as": the request behind a view as curl or Python, and its rows as CSV.
import { button, make } from "../dom.js";
import { note } from "../notes.js";
import { download, keepFile, token, urlOf } from "../service.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(path, query, body) {
  const words = ["curl", quoted(location.origin + urlOf(path, query))];
  if (token.get()) words.push("-H", '"Authorization: Bearer $TUCKERKG_TOKEN"');
  if (body) words.push("-H", "'Content-Type: application/json'", "-d", quoted(JSON.stringify(body)));
  return words.join(" ");
}

export function asPython(path, query, body) {
  const headers = token.get() ? ', headers={"Authorization": "Bearer " + os.environ["TUCKERKG_TOKEN"]}' : "";
  const url = JSON.stringify(location.origin + urlOf(path, query));
  const call = body ? `requests.post(${url}, json=${pythonOf(body)}${headers})` : `requests.get(${url}${headers})`;
  return `${headers ? "import os\n" : ""}import requests\n\nanswer = ${call}\nanswer.raise_for_status()\nprint(answer.json())\n`;
}

function pythonOf(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null || value === undefined) return "None";
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => `${JSON.stringify(k)}: ${pythonOf(v)}`).join(", ")}}`;
  return JSON.stringify(value);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    note(`Copied as ${what}.`, { key: "copied" });
  } catch {
    show(text, what);
  }
}

// Where the browser gives no clipboard, the text to copy by hand.
function show(text, what) {
  const field = make("textarea", { readonly: true, rows: 8, "aria-label": `As ${what}` });
  field.value = text;
  const dialog = make("dialog", {}, make("h2", {}, `As ${what}`), field, make("p", { class: "buttons" }, button("Close", () => dialog.close(), { class: "main" })));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  field.select();
}

// ``csv``: true where the service writes the same answer as CSV, or a function that gives rows of what is shown.
export function copyAs(path, { query = {}, body = null, csv = false, name = "tuckerkg.csv" } = {}) {
  const save = async () => {
    try {
      if (csv === true) await download(path, query, { accept: "text/csv", name, body });
      else keepFile(new Blob([csvOf(csv())], { type: "text/csv" }), name);
    } catch (error) {
      note(error.message, { bad: true });
    }
  };
  return make("p", { class: "copying" }, make("span", { class: "soft" }, "This view as "),
    button("curl", () => copy(asCurl(path, query, body), "curl")), button("Python", () => copy(asPython(path, query, body), "Python")),
    csv ? button("CSV", save) : null);
}

// Texts that a spreadsheet would take for a formula get an apostrophe.
export function csvOf(rows) {
  const field = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

export const factColumns = ["head", "relation", "tail", "head_label", "relation_label", "tail_label"];
export const rowsOfFacts = (facts, more = []) => [[...factColumns, ...more], ...facts.map((fact) => [...factColumns, ...more].map((name) => fact[name]))];
