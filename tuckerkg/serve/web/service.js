// Asks the service. A request that a newer one replaces is given up.

const KEY = "tuckerkg-token";

export class Problem extends Error {
  constructor(status, text, id) {
    super(id ? `${text} (id ${id})` : text);
    this.status = status;
  }
}

export function remember(token) {
  sessionStorage.setItem(KEY, token);
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...(options.headers ?? {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service does not answer. Is it still running?");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, body.error ?? `Status ${answer.status}`, body.id);
  return body;
}

export const get = (path, query = {}, signal = undefined) =>
  ask(`${path}?${new URLSearchParams(query)}`, { signal });

export const post = (path, body, signal = undefined) =>
  ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });
