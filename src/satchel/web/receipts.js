// Receipts of imports, exports, backups and restore tests: what was lost, and who signed them.

import { chip, el, empty, facts, field, json, link, mono, more, notes, number, options, short, soft, table, to, when } from "./elements.js";
import { into } from "./feedback.js";
import { get, path } from "./requests.js";

const MOST = 200;

export const lost = (losses) => table(["field", "number", "reason", "examples"], losses.map((one) => [
  mono(one.name ?? one.field), number(one.count), one.reason, (one.examples ?? []).map(short).join(", ")]));

export async function account(id) {
  const found = await get(path("receipts", id));
  const said = found.account;
  return [
    el("p", {}, chip(found.outcome, found.outcome === "good" ? "good" : "bad"),
      found.problem ? ` ${found.problem}` : "", " ", said.kind, said.ended ? [" · ", when(said.ended)] : ""),
    facts({
      receipt: mono(found.id), from: said.input?.name, to: said.output?.name, format: said.output?.format ?? said.input?.format,
      "read back": said.read_back, verdict: said.verdict,
      "input digest": said.input?.digest ? mono(said.input.digest) : null,
      "output digest": said.output?.digest ? mono(said.output.digest) : null,
      ...(said.done?.questions ? { queries: `${said.done.same_answers} of ${said.done.questions} return the same results` } : {}),
      "signed by": (found.signed_by ?? []).length ? found.signed_by.map((key) => el("div", { class: "mono" }, key)) : "nobody",
    }),
    said.counts ? table(["records", "read", "planned", "written", "read back"], Object.entries(said.counts).map(([type, each]) =>
      [type, ...[each.read, each.planned, each.written, each.read_back].map((one) => (one === undefined ? "" : number(one)))])) : null,
    (said.lost ?? []).length ? [el("h3", {}, "Lost"), lost(said.lost)] : null,
    notes(said.notes),
    more("Full record", json(found.record)),
  ];
}

export async function receipts(id, query) {
  if (id) return [el("p", { class: "small" }, link("#/receipts", "Receipts"), ` / ${short(id)}`), el("h1", {}, "Receipt"), await account(id)];
  const { receipts: found } = await get(path("receipts"), { limit: MOST });
  const kinds = [...new Set(found.map((one) => one.kind))].sort();
  const kind = el("select", { onchange: () => { location.hash = "#/receipts" + (kind.value ? `?kind=${encodeURIComponent(kind.value)}` : ""); } },
    options([["", "all"], ...kinds.map((one) => [one, one])], query.get("kind")));
  const wanted = query.get("kind");
  const shown = found.filter((one) => !wanted || one.kind === wanted);
  return [
    el("h1", {}, "Receipts"),
    found.length ? soft("Signed records of imports, exports, backups and restore tests, with everything that was lost.")
      : empty("No receipts yet.", "Imports, exports, backups and restore tests create a receipt."),
    kinds.length > 1 ? el("div", { class: "row" }, field("Kind", kind)) : null,
    shown.length ? table(["operation", "time", "from", "to", "records", "lost", ""], shown.map((one) => [
      one.kind, when(one.at), one.input, one.output, number(one.records),
      one.lost ? el("span", { class: "bad" }, number(one.lost)) : "nothing",
      link(to("receipts", one.id), "Show", el("span", { class: "unseen" }, ` the receipt of this ${one.kind}`)),
    ])) : null,
    found.length === MOST ? soft(`The newest ${MOST}. For all: satchel receipt list.`) : null,
  ];
}

// The newest receipts of some kinds.
export const latest = (place, kinds) => into(place, async () => {
  const { receipts: found } = await get(path("receipts"), { limit: MOST });
  const mine = found.filter((one) => kinds.includes(one.kind)).slice(0, 10);
  if (!mine.length) return null;
  return [
    el("h2", {}, "Receipts"),
    table(["operation", "time", "from", "to", "records", ""], mine.map((one) =>
      [one.kind, when(one.at), mono(one.input), one.output, number(one.records), link(to("receipts", one.id), "Show")])),
  ];
});
