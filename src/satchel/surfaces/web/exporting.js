// Memory out: what would be lost in a format is shown first, then the file is made and downloaded.

import { fetched, get, path } from "./asking.js";
import { button, check, count, el, facts, field, json, link, more, notes, number, options, quiet, soft, table, to } from "./making.js";
import { steps } from "./importing.js";
import { lost } from "./receipts.js";
import { into, told } from "./telling.js";

const STEPS = ["Choose", "Look", "Download"];
const FIRST = "pam";

export async function exporting(bank) {
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
  el("fieldset", {}, el("legend", {}, "Types"), types.map((one) => check(one, one.name))),
  el("div", { class: "row whole" }, field("Tags (one is enough)", tags), field("From", since), field("Until (not included)", until),
    check(sign, "Sign it, if the format can be signed"), el("button", { class: "end" }, "Preview")));
  return [at, soft("What the format cannot hold is counted before anything is written."), form, place];
}

async function preview(bank, query, place, step) {
  const where = path("banks", bank, "download");
  const found = await (await fetched(where, { ...query, dry_run: "true" })).json();
  const gone = (found.losses ?? []).reduce((sum, one) => sum + one.count, 0);
  return [
    el("h2", {}, "What would be in the file"),
    facts({ file: found.output, format: found.format, "of the bank": `${number(found.size)} records` }),
    Object.keys(found.records).length ? table(["records", "how many"], Object.entries(found.records).map(([type, much]) => [type, number(much)]))
      : el("p", { class: "warn" }, "Nothing: no memory is of that choice."),
    el("h2", { class: gone ? "warn" : "good" }, gone ? `${count(gone, "thing")} would be lost` : "Nothing would be lost"),
    gone ? lost(found.losses) : null,
    Object.keys(found.secrets ?? {}).length ? el("p", { class: "warn" },
      `It would hold what looks like secrets: ${Object.entries(found.secrets).map(([kind, much]) => `${much} × ${kind}`).join(", ")}.`) : null,
    notes(found.notes),
    found.plan ? more("The whole plan", json(found.plan)) : null,
    el("div", { class: "row" },
      button(gone ? "Download all the same" : "Download", () => into(place, () => made(where, query, step))),
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
  told(`${name} is downloaded.`);
  return [
    el("h2", { class: "good" }, "Done"),
    facts({ file: name, lost: gone ? count(gone, "thing") : "nothing" }),
    el("div", { class: "row" }, save, receipt ? link(to("receipts", receipt), "The receipt") : null),
  ];
}
