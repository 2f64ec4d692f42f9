// Numbers, times and facts as people read them.
import { shown } from "./dom.js";

export const percent = (value) =>
  value === null || value === undefined ? "" : value >= 0.995 ? "> 99 %" : value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`;

export const number = (value) => Number(value).toLocaleString("en");

export const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;

export const sentence = (fact, longest = 80) =>
  `${shown(fact.head, longest)} ${shown(fact.relation, longest)} ${shown(fact.tail, longest)}`;

// Entities of a type: its own word, or what the graph says of such entities where it has no word for them.
export const ofType = (type) => (type.startsWith("with “") ? `entities ${type}` : type.startsWith("value of “") ? type.replace("value", "values") : type);
export const isWord = (type) => Boolean(type) && type.length < 40 && !type.includes("“");

export const keyOf = (fact) => JSON.stringify([fact.head_label, fact.relation_label, fact.tail_label]);

const AGO = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [1e9, "year"]];

export function ago(at) {
  let since = Math.max(0, (Date.now() - Date.parse(at)) / 1000);
  if (Number.isNaN(since)) return "";
  if (since < 10) return "just now";
  for (const [size, unit] of AGO) {
    if (since < size) return `${many(Math.floor(since), unit)} ago`;
    since /= size;
  }
  return at;
}

export function lasting(seconds) {
  if (seconds < 90) return many(Math.max(1, Math.round(seconds)), "second");
  return many(Math.round(seconds / 60), "minute");
}

export const CHOICES = { accept: ["Accept", "accepted"], reject: ["Reject", "rejected"], defer: ["Defer", "deferred"] };

// The metrics of ranking, for a tip beside the figure.
export const METRICS = {
  mrr: "mean reciprocal rank: 1 if the hidden answer always came first, 0.5 if second",
  "hits@1": "how often the hidden answer came first",
  "hits@3": "how often the hidden answer was among the first 3",
  "hits@10": "how often the hidden answer was among the first 10",
};
