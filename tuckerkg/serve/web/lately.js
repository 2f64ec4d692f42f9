// Views that were looked at, and those that are kept: in this browser alone, until they are forgotten.

const KEY = "tuckerkg-lately", MOST = 40;
const VIEWS = /^#\/(entity|relation|graph|ask|why|compare|review|map)([/?]|$)/;

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { seen: Array.isArray(found.seen) ? found.seen : [], kept: Array.isArray(found.kept) ? found.kept : [] };
  } catch {
    return { seen: [], kept: [] };
  }
}

const write = (found) => localStorage.setItem(KEY, JSON.stringify(found));
const without = (list, hash) => list.filter((each) => each.hash !== hash);

export const lately = read;
export const canBeKept = (hash) => VIEWS.test(hash);
export const isKept = (hash) => read().kept.some((each) => each.hash === hash);
export const forgetAll = () => write({ seen: [], kept: read().kept });

export function looked(hash, title) {
  if (!canBeKept(hash)) return;
  const { seen, kept } = read();
  write({ kept, seen: [{ hash, title, at: new Date().toISOString() }, ...without(seen, hash)].slice(0, MOST) });
}

// Keeps a view, or no longer; the answer is whether it is kept now.
export function keep(hash, title) {
  const { seen, kept } = read(), was = kept.some((each) => each.hash === hash);
  write({ seen, kept: was ? without(kept, hash) : [{ hash, title, at: new Date().toISOString() }, ...kept] });
  return !was;
}
