// Jobs: progress, results, and cancelling.

import { chip, el, empty, facts, json, more, mono, number, quiet, short, soft, table, when } from "./elements.js";
import { load, problem, progress, notify } from "./feedback.js";
import { get, path, remove } from "./requests.js";

const SECONDS = 1;
const LOOKS = { done: "good", failed: "bad", cancelled: "warn" };
const OVER = new Set(["done", "failed", "cancelled"]);

export function jobs() {
  const container = el("div"), place2 = el("div"), rows = new Map();
  let known = "";
  const look = async () => {
    const result = await get(path("jobs"));
    const names = JSON.stringify([result.jobs.map((item) => item.id), result.cut_short]);
    if (names !== known) {
      known = names;
      container.replaceChildren(...shown(result, rows));
    } else {
      for (const item of result.jobs) fill(rows.get(item.id), item);
    }
    return result.jobs.some((item) => !OVER.has(item.state));
  };
  // Polls while the view is open: fast while a job runs, otherwise slowly.
  const follow = async () => {
    if (!container.isConnected) return;
    let busy = false;
    try {
      if (!document.hidden) busy = await look();
      place2.replaceChildren();
    } catch (error) {
      place2.replaceChildren(problem(error));
    }
    setTimeout(follow, (busy ? SECONDS : 5 * SECONDS) * 1000);
  };
  load(container, async () => {
    const result = await get(path("jobs"));
    known = JSON.stringify([result.jobs.map((item) => item.id), result.cut_short]);
    setTimeout(follow, SECONDS * 1000);
    return shown(result, rows);
  });
  return [el("h1", {}, "Jobs"), soft("Imports, backups, erasures and other long operations on this store."), container, place2];
}

function shown(result, rows) {
  rows.clear();
  const cut = result.cut_short ?? [];
  return [
    result.jobs.length || cut.length ? null : empty("No jobs.", "Long imports and backups are listed here."),
    el("ul", { class: "list" }, result.jobs.map((item) => {
      const row = el("li", {});
      rows.set(item.id, row);
      fill(row, item);
      return row;
    })),
    cut.length ? [el("h2", {}, "Interrupted imports"), soft("Their records are not visible. Resume or undo one with satchel job."),
      table(["import", "bank", "input", "records"], cut.map((item) => [
        mono(short(item.id ?? item.job ?? "")), item.bank ?? "", item.input ?? item.format ?? "", item.records === undefined ? "" : number(item.records)]))] : null,
  ].flat(Infinity).filter(Boolean);
}

function fill(row, item) {
  const now = JSON.stringify([item.state, item.done, item.total]);
  if (!row || row.now === now) return;
  row.now = now;
  const over = OVER.has(item.state);
  row.replaceChildren(...[
    el("p", {}, el("strong", {}, item.kind), " ", chip(item.state, LOOKS[item.state] ?? ""), " ", el("span", { class: "soft small" }, when(item.began),
      over && item.ended ? [" – ", when(item.ended)] : "")),
    over ? null : progress(item),
    over ? null : quiet("Cancel", async () => {
      try {
        await remove(path("jobs", item.id));
        notify("Cancelling.");
      } catch (error) {
        notify(error.message);
      }
    }, { "aria-label": `Cancel this ${item.kind}` }),
    item.problem ? el("div", {}, el("p", { class: "bad" }, item.problem.message), item.problem.hint ? soft(item.problem.hint) : null) : null,
    over && item.total ? facts({ records: number(item.done) }) : null,
    item.result === undefined || item.result === null ? null : more("Result", json(item.result)),
  ].flat(Infinity).filter(Boolean));
}
