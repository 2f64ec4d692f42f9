// Asks the service: one place for the token, the run, retries, streams and what went wrong.
import { runAsked } from "./addresses.js";

export const API = "/api/v1";
const KEY = "tuckerkg-token", PATIENCE = 4, REMEMBERED = 60;
const WITHOUT_RUN = ["/runs", "/jobs", "/uploads", "/openapi.json"];
const answered = new Map();  // what was asked before, so that Back shows its view at once

export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail ?? body.title ?? `The service answered with status ${status}.`);
    this.status = status;
    this.code = body.code ?? "";
    this.near = body.near ?? [];
    this.errors = body.errors ?? [];
    this.seconds = body.retry_after ?? 0;
    this.id = status >= 500 ? body.instance : null;  // the log has only those
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text.trim()),
};

export function urlOf(path, query = {}) {
  const words = new URLSearchParams();
  const asked = WITHOUT_RUN.some((start) => path === start || path.startsWith(start + "/") || path.startsWith(start + "?")) ? {} : { run: runAsked() };
  for (const [name, value] of Object.entries({ ...asked, ...query })) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined && each !== "") words.append(name, each);
  }
  const text = words.toString();
  return API + path + (text ? `?${text}` : "");
}

async function send(url, options, tries = PATIENCE) {
  const known = token.get();
  const headers = { Accept: "application/json", ...(options.headers ?? {}), ...(known ? { Authorization: `Bearer ${known}` } : {}) };
  let answer;
  try {
    answer = await fetch(url, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The service does not answer. Is it still running?" });
  }
  if (answer.ok) return answer;
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  problem.seconds = Number(answer.headers.get("Retry-After")) || problem.seconds;
  const busy = answer.status === 429 || answer.status === 503;
  if (!busy || tries <= 1 || problem.seconds > 15 || problem.code === "loading") throw problem;
  await pause(1000 * Math.max(0.5, problem.seconds), options.signal);
  return send(url, options, tries - 1);
}

export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const end = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(end);
      reject(new DOMException("given up", "AbortError"));
    }, { once: true });
  });
}

const bodied = (method, body, signal) => ({ method, signal, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

// Every answer of a run names its version: whoever shows it hears of a new one.
export const stamps = new EventTarget();

async function read(answer) {
  const body = await answer.json();
  if (body.run?.version) stamps.dispatchEvent(new CustomEvent("stamp", { detail: body.run }));
  return body;
}

export const get = async (path, query = {}, signal = undefined) => read(await send(urlOf(path, query), { signal }));
export const post = async (path, body, signal = undefined, query = {}) => read(await send(urlOf(path, query), bodied("POST", body, signal)));
export const remove = async (path) => (await send(urlOf(path), { method: "DELETE" })).json().catch(() => ({}));

// The same question again is answered from memory until something changes in the run.
export async function recall(method, path, asked, signal) {
  const key = method + urlOf(path, method === "GET" ? asked : {}) + (method === "GET" ? "" : JSON.stringify(asked));
  if (!answered.has(key)) {
    const found = await (method === "GET" ? get : post)(path, asked, signal);
    answered.set(key, found);
    if (answered.size > REMEMBERED) answered.delete(answered.keys().next().value);
  }
  return answered.get(key);
}

export const forget = () => answered.clear();

export async function upload(file, signal) {
  const options = { method: "POST", body: file, signal, headers: { "Content-Type": "application/octet-stream" } };
  return (await send(urlOf("/uploads", { name: file.name }), options, 1)).json();
}

// A file by a request of our own: a plain link would not carry the token.
export async function download(path, query, { accept = "*/*", name, body = null }) {
  const options = body ? bodied("POST", body) : {};
  options.headers = { ...(options.headers ?? {}), Accept: accept };
  const answer = await send(urlOf(path, query), options);
  const said = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "");
  keepFile(await answer.blob(), said ? said[1] : name);
}

export function keepFile(blob, name) {
  const made = document.createElement("a");
  made.href = URL.createObjectURL(blob);
  made.download = name;
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 10_000);
}

// Server-sent events by fetch, which sends headers; EventSource does not.
export async function* events(path, signal) {
  const answer = await send(urlOf(path), { signal, headers: { Accept: "text/event-stream" } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      const kind = lines.find((line) => line.startsWith("event:"))?.slice(6).trim() ?? "message";
      if (data) yield { kind, data: JSON.parse(data) };
    }
  }
}
