// Addresses of views: #/view/label/label?option=value. The run is an option too, so that a link leads to the same run.

const now = { run: null };

export function address(parts, options = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...options, ...(now.run && options.run === undefined ? { run: now.run } : {}) })) {
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, value === true ? "yes" : value);
  }
  const text = query.toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const options = Object.fromEntries(new URLSearchParams(query));
  now.run = options.run ?? null;
  return { parts: path.split("/").map(decodeURIComponent), options };
}

export const runAsked = () => now.run;
export const home = (options) => address([""], options);
export const entityAt = (label, options) => address(["entity", label], options);
export const relationAt = (label) => address(["relation", label]);
export const graphAt = (label, options) => address(["graph", label], options);
export const mapAt = (label) => address(["map"], { entity: label });
export const askAt = (label, relation, place, options) => address(["ask", label, relation, place], options);
export const compareAt = (label, relation, place, options) => address(["compare", label, relation, place], options);
export const whyAt = (fact) => address(["why", fact.head_label, fact.relation_label, fact.tail_label]);
export const reviewAt = (options) => address(["review"], options);

// The same view with other options: a filter that can be shared and come back to.
export function changed(options) {
  const { parts, options: before } = parse(location.hash);
  return address(parts, { ...before, ...options });
}
