// Receipts of imports, exports, backups and restore tests: what was lost, and who signed them.

import { chip, el, empty, facts, field, json, link, mono, more, notes, number, options, short, soft, table, to, when } from "./elements.js";
import { load } from "./feedback.js";
import { get, path } from "./requests.js";

const MOST = 200;

export const lost = (losses) => table(["field", "number", "reason", "examples"], losses.map((item) => [
  mono(item.name ?? item.field), number(item.count), item.reason, (item.examples ?? []).map(short).join(", ")]));

export async function account(id) {
  const result = await get(path("receipts", id));
  const account = result.account;
  return [
    el("p", {}, chip(result.outcome, result.outcome === "good" ? "good" : "bad"),
      result.problem ? ` ${result.problem}` : "", " ", account.kind, account.ended ? [" · ", when(account.ended)] : ""),
    facts({
      receipt: mono(result.id), from: account.input?.name, to: account.output?.name, format: account.output?.format ?? account.input?.format,
      "read back": account.read_back, verdict: account.verdict,
      "input digest": account.input?.digest ? mono(account.input.digest) : null,
      "output digest": account.output?.digest ? mono(account.output.digest) : null,
      ...(account.done?.questions ? { queries: `${account.done.same_answers} of ${account.done.questions} return the same results` } : {}),
      "signed by": (result.signed_by ?? []).length ? result.signed_by.map((key) => el("div", { class: "mono" }, key)) : "nobody",
    }),
    account.counts ? table(["records", "read", "planned", "written", "read back"], Object.entries(account.counts).map(([type, each]) =>
      [type, ...[each.read, each.planned, each.written, each.read_back].map((item) => (item === undefined ? "" : number(item)))])) : null,
    (account.lost ?? []).length ? [el("h3", {}, "Lost"), lost(account.lost)] : null,
    notes(account.notes),
    more("Full record", json(result.record)),
  ];
}

export async function receipts(id, query) {
  if (id) return [el("p", { class: "small" }, link("#/receipts", "Receipts"), ` / ${short(id)}`), el("h1", {}, "Receipt"), await account(id)];
  const { receipts: result } = await get(path("receipts"), { limit: MOST });
  const kinds = [...new Set(result.map((item) => item.kind))].sort();
  const kind = el("select", { onchange: () => { location.hash = "#/receipts" + (kind.value ? `?kind=${encodeURIComponent(kind.value)}` : ""); } },
    options([["", "all"], ...kinds.map((item) => [item, item])], query.get("kind")));
  const wanted = query.get("kind");
  const shown = result.filter((item) => !wanted || item.kind === wanted);
  return [
    el("h1", {}, "Receipts"),
    result.length ? soft("Signed records of imports, exports, backups and restore tests, with everything that was lost.")
      : empty("No receipts yet.", "Imports, exports, backups and restore tests create a receipt."),
    kinds.length > 1 ? el("div", { class: "row" }, field("Kind", kind)) : null,
    shown.length ? table(["operation", "time", "from", "to", "records", "lost", ""], shown.map((item) => [
      item.kind, when(item.at), item.input, item.output, number(item.records),
      item.lost ? el("span", { class: "bad" }, number(item.lost)) : "nothing",
      link(to("receipts", item.id), "Show", el("span", { class: "unseen" }, ` the receipt of this ${item.kind}`)),
    ])) : null,
    result.length === MOST ? soft(`The newest ${MOST}. For all: satchel receipt list.`) : null,
  ];
}

// The newest receipts of some kinds.
export const latest = (container, kinds) => load(container, async () => {
  const { receipts: result } = await get(path("receipts"), { limit: MOST });
  const matching = result.filter((item) => kinds.includes(item.kind)).slice(0, 10);
  if (!matching.length) return null;
  return [
    el("h2", {}, "Receipts"),
    table(["operation", "time", "from", "to", "records", ""], matching.map((item) =>
      [item.kind, when(item.at), mono(item.input), item.output, number(item.records), link(to("receipts", item.id), "Show")])),
  ];
});
