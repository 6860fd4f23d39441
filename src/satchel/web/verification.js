// Verification of a sealed file, step by step, and its signers.

import { check, chip, chips, count, el, json, mono, more, notes, soft, table } from "./elements.js";
import { into } from "./feedback.js";
import { dropped } from "./import.js";
import { path, send } from "./requests.js";

const SIGNS = { passed: "✓", failed: "✗", "not run": "–" };
const LOOKS = { passed: "good", failed: "bad", "not run": "soft" };

export function verification() {
  const deep = el("input", { type: "checkbox", name: "deep" });
  const place = el("section", { "aria-live": "polite", id: "verdict" });
  let last = null;
  const look = (file) => {
    last = file;
    into(place, async () => verdict(await send(path("verify", "upload"), { name: file.name, deep: String(deep.checked) }, file)));
  };
  deep.addEventListener("change", () => last && look(last));
  return [
    el("h1", {}, "Verify"),
    soft("Check that a sealed file is unchanged since it was signed, and by whom. The file is not stored."),
    check(deep, "Verify every record"),
    dropped("Drop a sealed file here", look),
    place,
  ];
}

const verdict = (found) => [
  el("h2", { class: found.outcome === "good" ? "good" : "bad" }, `${found.file}: ${found.outcome}`),
  el("ol", { class: "list checked" }, found.steps.map((step) => el("li", { class: LOOKS[step.state] },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[step.state]),
    el("div", {}, el("strong", { class: LOOKS[step.state] }, step.name), " ",
      el("span", { class: "soft small" }, step.state), soft(step.detail))))),
  found.findings.length ? [el("h2", {}, "Problems"), el("ul", { class: "bad" }, found.findings.map((one) =>
    el("li", {}, `${one.outcome}: ${one.message}`, one.line ? ` (line ${one.line})` : "", one.field ? ` (${one.field})` : "")))] : null,
  found.signers.length ? [el("h2", {}, "Signed by"), table(["key", "name", "trust", "valid"], found.signers.map((one) =>
    [mono(one.key), one.name ?? "", one.trust, one.valid ? chip("yes", "good") : el("span", { class: "bad" }, one.problem ?? "no")]))] : null,
  notes(found.notes),
  chips(Object.entries(found.records).map(([type, number]) => count(number, type, type))),
  more("Signed statement", json(found.statement)),
];
