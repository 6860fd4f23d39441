// Feedback: waiting, notices, errors, progress and dialogs.

import { el, number, quiet, soft } from "./elements.js";
import { get, path, Refused, remove } from "./requests.js";

const SLOW = 6000, NOTICE_MS = 8000;

export const problem = (error, again) =>
  el("div", { class: "problem", role: "alert" },
    el("p", {}, el("strong", {}, error.message)),
    error.field ? soft("At: ", el("span", { class: "mono" }, error.field)) : null,
    error.hint ? soft(error.hint) : null,
    error.code ? el("p", { class: "soft mono" }, error.code) : null,
    again && (error.status === 0 || error.status >= 500 || error.status === 429) ? el("p", {}, quiet("Try again", again)) : null);

// An error as one text: its message, a full stop, and its hint.
export const sentence = (message, hint) => (hint ? `${message.replace(/[.:]?\s*$/, ".")} ${hint}` : message);

// Shows a notice for some seconds, with Undo if possible.
export function notify(text, undo) {
  const where = document.getElementById("notice");
  const over = () => where.replaceChildren();
  where.replaceChildren(el("span", {}, text), ...(undo ? [quiet("Undo", () => { over(); undo(); })] : []));
  clearTimeout(notify.timer);
  notify.timer = setTimeout(over, NOTICE_MS);
}

// Shows a waiting text, then the result or the error.
export async function load(container, work) {
  const current = Symbol("work");
  container.work = current;
  const hadFocus = container !== document.activeElement && container.contains(document.activeElement);
  const waiting = el("p", { class: "soft waiting" }, "Loading\u2026");
  const slow = setTimeout(() => { waiting.textContent = "Still loading\u2026"; }, SLOW);
  container.replaceChildren(waiting);
  container.setAttribute("aria-busy", "true");
  let result;
  try {
    result = await work();
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    result = problem(error, () => load(container, work));
  } finally {
    clearTimeout(slow);
  }
  if (container.work !== current) return;
  container.replaceChildren(...[result].flat(Infinity).filter(Boolean));
  container.removeAttribute("aria-busy");
  // If the focused button is gone, the focus moves here, not to the top of the page.
  if (hadFocus && [document.body, null].includes(document.activeElement)) {
    container.tabIndex = -1;
    container.focus({ preventScroll: true });
  }
}

// Asks for confirmation; errors are shown in the dialog, which then stays open, as it does if "act"
// returns false after writing the reason to its place.
export function confirmDialog({ heading, body, rows = [], act, does, danger }) {
  const failed = el("div"), title = `ask-${Date.now()}`;
  const go = el("button", { class: danger ? "danger" : null }, does);
  const box = el("dialog", { "aria-labelledby": title, onclose: () => box.remove() }, el("form", { onsubmit: async (event) => {
    event.preventDefault();
    failed.replaceChildren();
    go.disabled = true;
    try {
      if (await act(failed) !== false) box.close();
    } catch (error) {
      failed.replaceChildren(problem(error));
    } finally {
      go.disabled = false;
    }
  } }, el("h2", { id: title }, heading), body ? soft(body) : null, rows, failed,
  el("div", { class: "row" }, go, quiet("Cancel", () => box.close()))));
  document.body.append(box);
  box.showModal();
  return box;
}

// Prompts for the operator's token, which is stored until this tab is closed.
export function operator(wrong, keep) {
  return new Promise((done) => {
    const token = el("input", { type: "password", name: "token", required: true, autocomplete: "off" });
    let entered = false;
    const box = confirmDialog({
      heading: "Sign in", does: "Sign in",
      body: wrong ? "The server does not accept this token, or no longer does. Nothing you typed is lost."
        : "This server requires the operator's token. It is kept until this tab is closed.",
      rows: [el("label", {}, "Operator token", token)],
      act: async () => { entered = true; keep(token.value.trim()); },
    });
    box.addEventListener("close", () => done(entered));
  });
}

// Follows a job to its end, and returns its result.
async function followed(job, tell) {
  for (let wait = 60; ; wait = Math.min(1000, wait * 1.5)) {
    const now = await get(path("jobs", job.id));
    tell(now);
    if (now.state === "done") return now.result;
    if (now.state === "failed") throw new Refused(500, { ...now.problem, title: now.problem?.message });
    if (now.state === "cancelled") throw new Refused(409, { title: "Cancelled. Nothing was changed." });
    await new Promise((go) => setTimeout(go, wait));
  }
}

export const progress = (now) => [
  el("progress", { max: 1, value: now.total ? now.done / now.total : null, "aria-label": "Progress" }),
  soft(now.state, now.total ? `, ${number(now.done ?? 0)} of ${number(now.total)}` : ""),
];

// Shows a job's progress in a place until it ends.
export function watchJob(job, container) {
  const shown = el("div");
  container.replaceChildren(shown, quiet("Cancel", () => remove(path("jobs", job.id)), { "aria-label": "Cancel this job" }));
  return followed(job, (now) => shown.replaceChildren(...progress(now)));
}

// Runs something once; errors are shown in a place.
export const attempt = (container, act) => async () => {
  try {
    await act();
  } catch (error) {
    container.replaceChildren(problem(error));
  }
};
