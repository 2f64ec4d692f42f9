// Signs of work where the eye is: grey lines in the place of what comes, and a bar that says how far it is.
import { make, shown, wide } from "../dom.js";
import { lasting } from "../words.js";

export function skeleton(lines = 6) {
  const grey = Array.from({ length: lines }, (_, place) => make("div", { class: `grey grey-${place % 3}` }));
  return [make("div", { class: "skeleton", role: "img", "aria-label": "Loading" }, make("div", { class: "grey grey-title" }), ...grey)];
}

// A bar with words; ``tell(done, total, words, secondsLeft)`` moves it, no total lets it run.
export function progress(words) {
  const fill = make("span"), bar = make("div", { class: "bar run", role: "progressbar", "aria-label": words, "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const text = make("p", { class: "soft", "aria-live": "polite" }, words);
  const element = make("div", { class: "progress" }, text, bar);
  const tell = (done, total, said = words, left = null) => {
    const share = total ? done / total : null;
    bar.classList.toggle("run", share === null);
    if (share === null) bar.removeAttribute("aria-valuenow");
    else {
      bar.setAttribute("aria-valuenow", String(Math.floor(100 * share)));
      wide(fill, share);
    }
    const parts = [shown(said), share === null ? "" : `${Math.floor(100 * share)} %`, left === null ? "" : `about ${lasting(left)} left`];
    const next = parts.filter(Boolean).join(" · ");
    if (text.textContent !== next) text.textContent = next;
  };
  return { element, tell };
}

// Seconds that pass beside what takes long and cannot say how far it is.
export function counting(words, signal) {
  const { element, tell } = progress(words), began = Date.now();
  const tick = setInterval(() => tell(0, null, `${words} ${Math.round((Date.now() - began) / 1000)} s`), 1000);
  signal.addEventListener("abort", () => clearInterval(tick), { once: true });
  return { element, stop: () => clearInterval(tick) };
}
