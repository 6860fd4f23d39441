// Export: shows what a format would lose, then downloads the file.

import { button, check, count, el, facts, field, json, link, more, notes, number, options, quiet, soft, table, to } from "./elements.js";
import { load, notify } from "./feedback.js";
import { steps } from "./import.js";
import { lost } from "./receipts.js";
import { fetched, get, path } from "./requests.js";

const STEPS = ["Choose", "Review", "Download"];
const FIRST = "pam";

export async function exportView(bank, query) {
  const ids = (query.get("ids") ?? "").split(",").filter(Boolean);
  const { formats } = await get(path("formats"));
  const written = formats.filter((item) => item.writes)
    .sort((item, other) => (other.name === FIRST) - (item.name === FIRST) || item.title.localeCompare(other.title));
  const format = el("select", { name: "format" }, options(written.map((item) => [item.name, `${item.title} (${item.name})`]), FIRST));
  const types = ["semantic", "episodic", "procedural", "working", "identity"].map((item) =>
    el("input", { type: "checkbox", name: item, checked: true }));
  const tags = el("input", { name: "tags", autocomplete: "off", placeholder: "all" });
  const since = el("input", { type: "date", name: "since" }), until = el("input", { type: "date", name: "until" });
  const sign = el("input", { type: "checkbox", name: "sign", checked: true });
  const container = el("section", { "aria-live": "polite", id: "plan" }), at = el("div", {}, steps(0, STEPS));
  const step = (now) => at.replaceChildren(steps(now, STEPS));
  const wanted = () => {
    const chosen = types.filter((item) => item.checked).map((item) => item.name);
    if (ids.length) return { to: format.value, ids, unsigned: String(!sign.checked) };
    return {
      to: format.value, type: chosen.length === types.length ? [] : chosen,
      tags: tags.value.split(/[,\s]+/).filter(Boolean), since: since.value, until: until.value, unsigned: String(!sign.checked),
    };
  };
  const changed = () => { step(0); container.replaceChildren(); };
  const form = el("form", { onchange: changed, onsubmit: (event) => {
    event.preventDefault();
    if (!types.some((item) => item.checked)) {
      container.replaceChildren(el("p", { class: "warn" }, "Choose at least one type."));
      return;
    }
    step(1);
    const query = wanted();
    load(container, () => preview(bank, query, container, step));
  } },
  el("label", { class: "wide" }, "Format", format),
  ids.length ? el("p", { class: "whole" }, el("strong", {}, `${count(ids.length, "selected memory", "selected memories")}. `), link(to("b", bank, "export"), "Choose by type, tag and date instead"))
    : el("fieldset", {}, el("legend", {}, "Types"), types.map((item) => check(item, item.name))),
  el("div", { class: "row whole" }, ids.length ? null : [field("Tags (any of them)", tags), field("From", since), field("Until (exclusive)", until)],
    check(sign, "Sign (if the format supports it)"), el("button", { class: "end" }, "Preview")));
  return [at, soft("The preview counts what the format cannot hold."), form, container];
}

async function preview(bank, query, container, step) {
  const where = path("banks", bank, "download");
  const result = await (await fetched(where, { ...query, dry_run: "true" })).json();
  const gone = (result.losses ?? []).reduce((sum, item) => sum + item.count, 0);
  return [
    el("h2", {}, "Export plan"),
    facts({ file: result.output, format: result.format, "of the bank": `${number(result.size)} records` }),
    Object.keys(result.records).length ? table(["records", "number"], Object.entries(result.records).map(([type, much]) => [type, number(much)]))
      : el("p", { class: "warn" }, "No memories match this selection."),
    el("h2", { class: gone ? "warn" : "good" }, gone ? `${count(gone, "value")} would be lost` : "Nothing would be lost"),
    gone ? lost(result.losses) : null,
    Object.keys(result.secrets ?? {}).length ? el("p", { class: "warn" },
      `The file would include possible secrets: ${Object.entries(result.secrets).map(([kind, much]) => `${much} × ${kind}`).join(", ")}.`) : null,
    notes(result.notes),
    result.plan ? more("Full plan", json(result.plan)) : null,
    el("div", { class: "row" },
      button(gone ? "Download anyway" : "Download", () => load(container, () => made(where, query, step))),
      quiet("Cancel", () => { step(0); container.replaceChildren(); })),
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
