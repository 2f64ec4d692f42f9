// The place in each view that was left: Back and a reload lead there again.

const KEY = "tuckerkg-places", KEPT = 40;
const places = new Map(JSON.parse(sessionStorage.getItem(KEY) ?? "[]"));
let present = null;

history.scrollRestoration = "manual";

// The entry of the history that is shown: what it keeps (``place``, a view may add to it) and how far down it was.
export function placeOf() {
  const id = history.state?.id ?? `${Date.now()}-${Math.random()}`;
  if (!history.state?.id) history.replaceState({ id }, "");
  const place = places.get(id) ?? { y: 0 };
  places.delete(id);
  places.set(id, place);
  if (places.size > KEPT) places.delete(places.keys().next().value);
  present = null;  // until the view stands, scrolling is not the reader's
  const seen = { place, y: place.y };
  return { place, seen };
}

const QUIET = 800, LONGEST = 20_000;  // milliseconds: without growth, and in all

// Scroll there, again while the view still grows above or below, unless the reader moves.
export function restore({ place, y }, signal) {
  present = place;
  window.scrollTo(0, y);
  if (!y) return;
  const began = performance.now(), moved = new AbortController();
  for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) window.addEventListener(kind, () => moved.abort(), { passive: true, signal: moved.signal });
  let height = 0, grown = began;
  const again = () => {
    const now = performance.now(), high = document.documentElement.scrollHeight, loads = document.querySelector("main .progress:not([hidden])");
    if (high !== height || loads) [height, grown] = [high, now];
    if (signal.aborted || moved.signal.aborted || now - grown > QUIET || now - began > LONGEST) return moved.abort();
    if (Math.abs(window.scrollY - y) > 1) window.scrollTo(0, y);
    return requestAnimationFrame(again);
  };
  again();
}

window.addEventListener("scroll", () => { if (present) present.y = window.scrollY; }, { passive: true });
window.addEventListener("pagehide", () => sessionStorage.setItem(KEY, JSON.stringify([...places])));
