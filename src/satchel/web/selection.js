// Selection of memories in a list, and bulk actions.

import { check, clipped, count, el, field, number, options, quiet, to } from "./elements.js";
import { confirmDialog, progress, sentence, notify } from "./feedback.js";
import { gist, tagged, written } from "./memory.js";
import { patch, path, post, Refused, remove } from "./requests.js";

const LISTED = 5, TITLE = 60, DIGITS = 16, EXPORTED = 500;

const title = (memory) => clipped(gist(memory), TITLE);
const memories = (much) => count(much, "memory", "memories");
const where = (bank, item, ...more) => path("banks", bank, "entries", item.id, ...more);

const isCurrent = (item) => item.state === "current" && !item.held;

const ACTIONS = [
  ["Add tags", isCurrent, tagging],
  ["Remove a tag", (item) => isCurrent(item) && (item.tags ?? []).length, untagging],
  ["Export", isCurrent, exported],
  ["Release", (item) => item.held && item.state === "current", releasing],
  ["Reject", (item) => item.held && item.state === "current", rejecting],
  ["Restore", (item) => ["deleted", "expired"].includes(item.state), restoring],
  ["Forget", (item) => item.state === "current", forgetting],
];

// The checkboxes of a list, the one for all of them, and the bar of actions; "again" reloads the list.
export function selection(bank, again) {
  const rows = [];
  let last = null;
  const status = el("span", { class: "soft small", role: "status" });
  const all = el("input", { type: "checkbox", name: "all", onchange: () => {
    for (const [, box] of enabled()) box.checked = all.checked;
    update();
  }, onkeydown: moved });
  const enabled = () => rows.filter(([, box]) => !box.disabled);
  const bar = el("div", { class: "bar", role: "group", "aria-label": "Actions for the selected memories", hidden: true });

  function update() {
    const those = enabled(), now = those.filter(([, box]) => box.checked).map(([item]) => item);
    all.disabled = !those.length;
    all.checked = those.length > 0 && now.length === those.length;
    all.indeterminate = now.length > 0 && now.length < those.length;
    status.textContent = now.length ? `${number(now.length)} of ${number(those.length)} selected` : "";
    bar.hidden = !now.length;
    bar.replaceChildren(
      el("strong", {}, `${number(now.length)} selected`),
      ...ACTIONS.flatMap(([name, takes, act]) => {
        const taken = now.filter(takes);
        if (!taken.length) return [];
        const label = taken.length < now.length ? `${name} (${number(taken.length)})` : name;
        return [quiet(label, () => act(bank, taken, again), name === "Forget" ? { class: "danger" } : {})];
      }),
      quiet("Clear", clear, { class: "quiet end", title: "Escape" }));
  }

  function clear() {
    for (const [, box] of rows) box.checked = false;
    update();
    all.focus();
  }

  // Keys in a checkbox: up and down the list, with Shift selecting; to the actions; out.
  function moved(event) {
    const at = rows.findIndex(([, box]) => box === event.target);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === "Escape") clear();
    else if (event.key === "Enter") bar.querySelector("button")?.focus();
    else if (next === undefined) return;
    else {
      const box = next < 0 ? all : rows[Math.min(next, rows.length - 1)]?.[1];
      box?.focus();
      if (event.shiftKey && at >= 0 && box && box !== all) {
        event.target.checked = box.checked = true;
        update();
      }
    }
    event.preventDefault();
  }

  // With Shift, the range from the last clicked one.
  function clicked(event) {
    const at = rows.findIndex(([, box]) => box === event.target);
    if (event.shiftKey && last !== null) {
      for (const [, box] of rows.slice(Math.min(at, last), Math.max(at, last) + 1)) box.checked = event.target.checked;
    }
    last = at;
    update();
  }

  const pick = (item) => {
    const box = el("input", { type: "checkbox", "aria-label": `Select: ${title(item)}`, onclick: clicked, onchange: update, onkeydown: moved });
    rows.push([item, box]);
    update();
    return el("label", { class: "pick" }, box);
  };
  const head = (heading) => el("div", { class: "row list-head" }, heading,
    check(all, "Select all on this page"), status);
  return { bar, head, pick };
}

// The first few by name, as a dialog has no room for more.
const names = (some) => el("ul", { class: "names small" }, some.slice(0, LISTED).map((item) => el("li", {}, title(item))),
  some.length > LISTED ? el("li", { class: "soft" }, `and ${number(some.length - LISTED)} more`) : null);

// Runs an action on one memory after the other; returns the failed ones with their errors.
async function each(some, work, changed, goes = () => true) {
  const failed = [];
  for (const [at, item] of some.entries()) {
    if (!goes(at)) break;
    try {
      if (await work(item) !== false) changed.push(item);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      failed.push([item, error]);
      if (error.status === 0) return [...failed, ...some.slice(at + 1).map((other) => [other, error])];
    }
  }
  return failed;
}

// Asks for confirmation. The dialog lists failures and can retry them; closing it stops after the current memory.
function confirmChange(some, { heading, does, danger, body, rows = [], work, done }) {
  let left = some, running = false;
  const changed = [];
  const end = () => { if (changed.length) done(changed); };
  const box = confirmDialog({
    heading, does, danger, body, rows: [...rows, names(some)],
    act: async (container) => {
      running = true;
      const failed = await each(left, work, changed, (at) => {
        if (container.isConnected) container.replaceChildren(...progress({ state: "running", done: at, total: left.length }));
        return container.isConnected;
      }).finally(() => { running = false; });
      if (!container.isConnected) return end();
      container.replaceChildren();
      if (!failed.length) return true;
      left = failed.map(([item]) => item);
      container.replaceChildren(el("div", { class: "problem", role: "alert" },
        el("p", {}, el("strong", {}, `${number(some.length - failed.length)} of ${number(some.length)} done. ${number(failed.length)} failed:`)),
        el("ul", {}, failed.map(([item, error]) => el("li", {}, el("strong", {}, title(item)), `: ${sentence(error.message, error.hint)}`)))));
      box.querySelector("button").textContent = "Try again";
      box.querySelector("button.quiet").textContent = "Close";
      return false;
    },
  });
  box.addEventListener("close", () => { if (!running) end(); });
}

const reasoned = () => written("reason");
const because = (reason) => (reason.value.trim() ? { reason: reason.value.trim() } : {});

function forgetting(bank, some, again) {
  const reason = reasoned();
  confirmChange(some, {
    heading: `Forget ${memories(some.length)}`, does: "Forget", danger: true,
    body: "They are no longer listed or recalled. They stay in the log and can be restored; to erase them permanently, use satchel erase.",
    rows: [field("Reason (optional)", reason)],
    work: (item) => remove(where(bank, item), because(reason)),
    done: (changed) => {
      again();
      notify(`${memories(changed.length)} forgotten.`, () => broughtBack(bank, changed, again));
    },
  });
}

async function broughtBack(bank, some, again) {
  const failed = await each(some, (item) => post(where(bank, item, "restore")), []);
  notify(failed.length ? `Not restored: ${failed.map(([item, error]) => `${title(item)} (${error.message})`).join("; ")}`
    : `${memories(some.length)} restored.`);
  again();
}

function restoring(bank, some, again) {
  confirmChange(some, {
    heading: `Restore ${memories(some.length)}`, does: "Restore", body: "They are listed and recalled again.",
    work: (item) => post(where(bank, item, "restore")),
    done: (changed) => { again(); notify(`${memories(changed.length)} restored.`); },
  });
}

function tagging(bank, some, again) {
  const tags = written("tags", { required: true, pattern: ".*[^\\s,#].*", placeholder: "food, travel" });
  confirmChange(some, {
    heading: `Add tags to ${memories(some.length)}`, does: "Add tags", body: "This creates a new version of each memory that lacks a tag.",
    rows: [field("Tags", tags)],
    work: async (item) => (await patch(where(bank, item), { add_tags: tagged(tags) })).is_new,
    done: (changed) => { again(); notify(`Tags added to ${memories(changed.length)}.`); },
  });
}

function untagging(bank, some, again) {
  const counts = new Map();
  for (const tag of some.flatMap((item) => item.tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const tag = el("select", { name: "tag" }, options([...counts].sort(([, item], [, other]) => other - item)
    .map(([name, much]) => [name, `#${clipped(name, 40)} (${memories(much)})`])));
  confirmChange(some, {
    heading: `Remove a tag from ${memories(some.length)}`, does: "Remove", body: "This creates a new version of each memory that has the tag.",
    rows: [field("Tag", tag)],
    work: async (item) => item.tags.includes(tag.value) && (await patch(where(bank, item), { remove_tags: [tag.value] })).is_new,
    done: (changed) => { again(); notify(`Tag removed from ${memories(changed.length)}.`); },
  });
}

const judging = (bank, word, reason) => (item) => post(path("banks", bank, "quarantine", word), { memories: [item.id], ...because(reason) });

function releasing(bank, some, again) {
  const reason = reasoned();
  confirmChange(some, {
    heading: `Release ${memories(some.length)} from quarantine`, does: "Release",
    body: "They are recalled and provided to models, although they look like prompt injections. Review each first.",
    rows: [field("Reason (optional)", reason)], work: judging(bank, "release", reason),
    done: (changed) => { again(); notify(`${memories(changed.length)} released.`); },
  });
}

function rejecting(bank, some, again) {
  const reason = reasoned();
  confirmChange(some, {
    heading: `Reject ${memories(some.length)}`, does: "Reject", danger: true,
    body: "They are marked as false and never recalled. Their text stays in the log.",
    rows: [field("Reason (optional)", reason)], work: judging(bank, "reject", reason),
    done: (changed) => { again(); notify(`${memories(changed.length)} rejected.`); },
  });
}

// The export has its own preview, with the count and the losses of the format.
function exported(bank, some) {
  if (some.length > EXPORTED) {
    notify(`Select at most ${number(EXPORTED)} memories, or export with a filter.`);
    return;
  }
  const ids = some.map((item) => item.id.slice(item.id.indexOf(":") + 1).slice(0, DIGITS));
  location.hash = `${to("b", bank, "export")}?ids=${ids.join(",")}`;
}
