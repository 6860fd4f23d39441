// Jobs: progress, results, and cancelling.

import { chip, el, empty, facts, json, more, mono, number, quiet, short, soft, table, when } from "./elements.js";
import { into, problem, progress, notify } from "./feedback.js";
import { get, path, remove } from "./requests.js";

const SECONDS = 1;
const LOOKS = { done: "good", failed: "bad", cancelled: "warn" };
const OVER = new Set(["done", "failed", "cancelled"]);

export function jobs() {
  const place = el("div"), place2 = el("div"), rows = new Map();
  let known = "";
  const look = async () => {
    const found = await get(path("jobs"));
    const names = JSON.stringify([found.jobs.map((one) => one.id), found.cut_short]);
    if (names !== known) {
      known = names;
      place.replaceChildren(...shown(found, rows));
    } else {
      for (const one of found.jobs) fill(rows.get(one.id), one);
    }
    return found.jobs.some((one) => !OVER.has(one.state));
  };
  // Polls while the view is open: fast while a job runs, otherwise slowly.
  const follow = async () => {
    if (!place.isConnected) return;
    let busy = false;
    try {
      if (!document.hidden) busy = await look();
      place2.replaceChildren();
    } catch (error) {
      place2.replaceChildren(problem(error));
    }
    setTimeout(follow, (busy ? SECONDS : 5 * SECONDS) * 1000);
  };
  into(place, async () => {
    const found = await get(path("jobs"));
    known = JSON.stringify([found.jobs.map((one) => one.id), found.cut_short]);
    setTimeout(follow, SECONDS * 1000);
    return shown(found, rows);
  });
  return [el("h1", {}, "Jobs"), soft("Imports, backups, erasures and other long operations on this store."), place, place2];
}

function shown(found, rows) {
  rows.clear();
  const cut = found.cut_short ?? [];
  return [
    found.jobs.length || cut.length ? null : empty("No jobs.", "Long imports and backups are listed here."),
    el("ul", { class: "list" }, found.jobs.map((one) => {
      const row = el("li", {});
      rows.set(one.id, row);
      fill(row, one);
      return row;
    })),
    cut.length ? [el("h2", {}, "Interrupted imports"), soft("Their records are not visible. Resume or undo one with satchel job."),
      table(["import", "bank", "input", "records"], cut.map((one) => [
        mono(short(one.id ?? one.job ?? "")), one.bank ?? "", one.input ?? one.format ?? "", one.records === undefined ? "" : number(one.records)]))] : null,
  ].flat(Infinity).filter(Boolean);
}

function fill(row, one) {
  const now = JSON.stringify([one.state, one.done, one.total]);
  if (!row || row.now === now) return;
  row.now = now;
  const over = OVER.has(one.state);
  row.replaceChildren(...[
    el("p", {}, el("strong", {}, one.kind), " ", chip(one.state, LOOKS[one.state] ?? ""), " ", el("span", { class: "soft small" }, when(one.began),
      over && one.ended ? [" – ", when(one.ended)] : "")),
    over ? null : progress(one),
    over ? null : quiet("Cancel", async () => {
      try {
        await remove(path("jobs", one.id));
        notify("Cancelling.");
      } catch (error) {
        notify(error.message);
      }
    }, { "aria-label": `Cancel this ${one.kind}` }),
    one.problem ? el("div", {}, el("p", { class: "bad" }, one.problem.message), one.problem.hint ? soft(one.problem.hint) : null) : null,
    over && one.total ? facts({ records: number(one.done) }) : null,
    one.result === undefined || one.result === null ? null : more("Result", json(one.result)),
  ].flat(Infinity).filter(Boolean));
}
