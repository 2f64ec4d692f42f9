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

// Scroll there, again while the view still grows, unless the reader has moved.
export function restore({ place, y }, signal) {
  present = place;
  window.scrollTo(0, y);
  if (!y) return;
  const end = Date.now() + 3000;
  const stop = new AbortController();
  const again = () => {
    if (signal.aborted || stop.signal.aborted || Date.now() > end || Math.abs(window.scrollY - y) < 2) return present === place && (place.y = window.scrollY);
    window.scrollTo(0, y);
    requestAnimationFrame(again);
    return null;
  };
  for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) window.addEventListener(kind, () => stop.abort(), { once: true, signal: stop.signal });
  requestAnimationFrame(again);
}

window.addEventListener("scroll", () => { if (present) present.y = window.scrollY; }, { passive: true });
window.addEventListener("pagehide", () => sessionStorage.setItem(KEY, JSON.stringify([...places])));
