// Export: shows what a format would lose, then downloads the file.

import { button, check, count, el, facts, field, json, link, more, notes, number, options, quiet, soft, table, to } from "./elements.js";
import { into, notify } from "./feedback.js";
import { steps } from "./import.js";
import { lost } from "./receipts.js";
import { fetched, get, path } from "./requests.js";

const STEPS = ["Choose", "Review", "Download"];
const FIRST = "pam";

export async function exportView(bank, query) {
  const ids = (query.get("ids") ?? "").split(",").filter(Boolean);
  const { formats } = await get(path("formats"));
  const written = formats.filter((one) => one.writes)
    .sort((one, other) => (other.name === FIRST) - (one.name === FIRST) || one.title.localeCompare(other.title));
  const format = el("select", { name: "format" }, options(written.map((one) => [one.name, `${one.title} (${one.name})`]), FIRST));
  const types = ["semantic", "episodic", "procedural", "working", "identity"].map((one) =>
    el("input", { type: "checkbox", name: one, checked: true }));
  const tags = el("input", { name: "tags", autocomplete: "off", placeholder: "all" });
  const since = el("input", { type: "date", name: "since" }), until = el("input", { type: "date", name: "until" });
  const sign = el("input", { type: "checkbox", name: "sign", checked: true });
  const place = el("section", { "aria-live": "polite", id: "plan" }), at = el("div", {}, steps(0, STEPS));
  const step = (now) => at.replaceChildren(steps(now, STEPS));
  const wanted = () => {
    const chosen = types.filter((one) => one.checked).map((one) => one.name);
    if (ids.length) return { to: format.value, ids, unsigned: String(!sign.checked) };
    return {
      to: format.value, type: chosen.length === types.length ? [] : chosen,
      tags: tags.value.split(/[,\s]+/).filter(Boolean), since: since.value, until: until.value, unsigned: String(!sign.checked),
    };
  };
  const changed = () => { step(0); place.replaceChildren(); };
  const form = el("form", { onchange: changed, onsubmit: (event) => {
    event.preventDefault();
    if (!types.some((one) => one.checked)) {
      place.replaceChildren(el("p", { class: "warn" }, "Choose at least one type."));
      return;
    }
    step(1);
    const query = wanted();
    into(place, () => preview(bank, query, place, step));
  } },
  el("label", { class: "wide" }, "Format", format),
  ids.length ? el("p", { class: "whole" }, el("strong", {}, `${count(ids.length, "selected memory", "selected memories")}. `), link(to("b", bank, "export"), "Choose by type, tag and date instead"))
    : el("fieldset", {}, el("legend", {}, "Types"), types.map((one) => check(one, one.name))),
  el("div", { class: "row whole" }, ids.length ? null : [field("Tags (any of them)", tags), field("From", since), field("Until (exclusive)", until)],
    check(sign, "Sign (if the format supports it)"), el("button", { class: "end" }, "Preview")));
  return [at, soft("The preview counts what the format cannot hold."), form, place];
}

async function preview(bank, query, place, step) {
  const where = path("banks", bank, "download");
  const found = await (await fetched(where, { ...query, dry_run: "true" })).json();
  const gone = (found.losses ?? []).reduce((sum, one) => sum + one.count, 0);
  return [
    el("h2", {}, "Export plan"),
    facts({ file: found.output, format: found.format, "of the bank": `${number(found.size)} records` }),
    Object.keys(found.records).length ? table(["records", "number"], Object.entries(found.records).map(([type, much]) => [type, number(much)]))
      : el("p", { class: "warn" }, "No memories match this selection."),
    el("h2", { class: gone ? "warn" : "good" }, gone ? `${count(gone, "value")} would be lost` : "Nothing would be lost"),
    gone ? lost(found.losses) : null,
    Object.keys(found.secrets ?? {}).length ? el("p", { class: "warn" },
      `The file would include possible secrets: ${Object.entries(found.secrets).map(([kind, much]) => `${much} × ${kind}`).join(", ")}.`) : null,
    notes(found.notes),
    found.plan ? more("Full plan", json(found.plan)) : null,
    el("div", { class: "row" },
      button(gone ? "Download anyway" : "Download", () => into(place, () => made(where, query, step))),
      quiet("Cancel", () => { step(0); place.replaceChildren(); })),
  ];
}

async function made(where, query, step) {
  const answer = await fetched(where, query);
  const file = await answer.blob();
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "memory";
  const address = URL.createObjectURL(file);
  const save = el("a", { href: address, download: name, class: "button" }, `Save ${name} again`);
  save.click();
  const receipt = answer.headers.get("X-Satchel-Receipt"), gone = Number(answer.headers.get("X-Satchel-Lost"));
  step(2);
  notify(`Downloaded ${name}.`);
  return [
    el("h2", { class: "good" }, "Done"),
    facts({ file: name, lost: gone ? count(gone, "value") : "nothing" }),
    el("div", { class: "row" }, save, receipt ? link(to("receipts", receipt), "Receipt") : null),
  ];
}
