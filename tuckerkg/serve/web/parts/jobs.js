// Work that the service does in the background: its progress, its end, and how to stop it.
import { button, make, shown } from "../dom.js";
import { note } from "../notes.js";
import { events, get, pause, remove } from "../service.js";
import { curve } from "./charts.js";
import { progress } from "./waiting.js";

const ENDED = ["done", "failed", "cancelled"];

// Calls back with every state of a job until it has ended; resolves to the last one.
export async function follow(job, told, signal) {
  let last = job;
  told(last);
  while (!ENDED.includes(last.state)) {
    try {
      for await (const { data } of events(`/jobs/${encodeURIComponent(job.id)}/events`, signal)) {
        last = after(last, data);
        told(last);
        if (ENDED.includes(last.state)) break;
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    if (ENDED.includes(last.state)) break;
    await pause(1000, signal);  // the stream ended early: ask
    const found = await get(`/jobs/${encodeURIComponent(job.id)}`, {}, signal);
    last = found.job ?? found;
    told(last);
  }
  return last;
}

// A job after one event: the end brings all of it, validations are points of the curve, lines are what it says.
function after(job, { event, job: whole, epoch, mrr, text, line, ...rest }) {
  if (whole) return { ...job, ...whole };
  const working = { ...job, state: "working" };
  if (event === "validated") return { ...working, curve: [...(job.curve ?? []).filter((point) => point[0] !== epoch), [epoch, mrr]] };
  if (event === "log") return { ...working, message: text ?? line ?? rest.message ?? job.message };
  return { ...working, ...rest };
}

const WORDS = { add: "Adding the accepted links", train: "Training", missing: "Looking through the whole graph", report: "Writing a report" };

// A job as a block that keeps itself up to date; ``ended(job)`` is called once at its end.
export function jobBlock(job, signal, ended = () => {}) {
  const words = WORDS[job.kind] ?? job.kind, bar = progress(words), chart = make("figure", { class: "live" });
  const said = make("p", { class: "job-end", role: "status" });
  const stop = button("Stop", async () => {
    stop.disabled = true;
    try {
      await remove(`/jobs/${encodeURIComponent(job.id)}`);
    } catch (error) {
      note(error.message, { bad: true });
      stop.disabled = false;
    }
  });
  const block = make("div", { class: "job" }, bar.element, chart, said, make("p", { class: "buttons" }, stop));
  const told = (now) => {
    const waits = now.state === "waiting" ? `${words}: waiting for its turn` : `${words}${now.message ? `: ${shown(now.message, 120)}` : ""}`;
    bar.tell(now.done ?? 0, now.total || null, waits, now.seconds_left ?? null);
    if (now.curve?.length > 1) chart.replaceChildren(curve(now.curve));
  };
  follow(job, told, signal).then((last) => {
    stop.remove();
    bar.element.hidden = true;
    said.textContent = last.state === "done" ? `${words}: done.` : last.state === "cancelled" ? `${words}: stopped.`
      : `${words} has failed: ${shown(last.problem?.detail ?? last.problem ?? "the service does not say why")}`;
    said.classList.toggle("bad", last.state === "failed");
    ended(last, said);
  }).catch((error) => error.name === "AbortError" || note(error.message, { bad: true }));
  return block;
}
