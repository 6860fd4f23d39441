// Verification of a sealed file, step by step, and its signers.

import { check, chip, chips, count, el, json, mono, more, notes, soft, table } from "./elements.js";
import { load } from "./feedback.js";
import { dropArea } from "./import.js";
import { path, send } from "./requests.js";

const SIGNS = { passed: "✓", failed: "✗", "not run": "–" };
const LOOKS = { passed: "good", failed: "bad", "not run": "soft" };

export function verification() {
  const deep = el("input", { type: "checkbox", name: "deep" });
  const container = el("section", { "aria-live": "polite", id: "verdict" });
  let last = null;
  const look = (file) => {
    last = file;
    load(container, async () => verdict(await send(path("verify", "upload"), { name: file.name, deep: String(deep.checked) }, file)));
  };
  deep.addEventListener("change", () => last && look(last));
  return [
    el("h1", {}, "Verify"),
    soft("Check that a sealed file is unchanged since it was signed, and by whom. The file is not stored."),
    check(deep, "Verify every record"),
    dropArea("Drop a sealed file here", look),
    container,
  ];
}

const verdict = (result) => [
  el("h2", { class: result.outcome === "good" ? "good" : "bad" }, `${result.file}: ${result.outcome}`),
  el("ol", { class: "list checked" }, result.steps.map((step) => el("li", { class: LOOKS[step.state] },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[step.state]),
    el("div", {}, el("strong", { class: LOOKS[step.state] }, step.name), " ",
      el("span", { class: "soft small" }, step.state), soft(step.detail))))),
  result.findings.length ? [el("h2", {}, "Problems"), el("ul", { class: "bad" }, result.findings.map((item) =>
    el("li", {}, `${item.outcome}: ${item.message}`, item.line ? ` (line ${item.line})` : "", item.field ? ` (${item.field})` : "")))] : null,
  result.signers.length ? [el("h2", {}, "Signed by"), table(["key", "name", "trust", "valid"], result.signers.map((item) =>
    [mono(item.key), item.name ?? "", item.trust, item.valid ? chip("yes", "good") : el("span", { class: "bad" }, item.problem ?? "no")]))] : null,
  notes(result.notes),
  chips(Object.entries(result.records).map(([type, number]) => count(number, type, type))),
  more("Signed statement", json(result.statement)),
];
