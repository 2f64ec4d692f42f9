// A file that is dropped anywhere on the page goes to the panel that inspects and trains it.
import { address } from "../addresses.js";

const dropped = { file: null };
export const fileDrop = new EventTarget();

export function takeDropped() {
  const { file } = dropped;
  dropped.file = null;
  return file;
}

export function acceptFiles() {
  const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    [dropped.file] = event.dataTransfer.files;
    if (location.hash.startsWith("#/runs")) fileDrop.dispatchEvent(new Event("file"));
    else location.hash = address(["runs"]);
  });
}
