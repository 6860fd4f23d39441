// The page: which part of it is shown, who looks at it, light and dark.

import { get, path, signIn } from "./asking.js";
import { backups, quarantine } from "./keeping.js";
import { el, into, link, problem, to } from "./making.js";
import { bank, banks, entry, named } from "./memories.js";
import { importing, receipts, verifying } from "./moving.js";
import { sessions } from "./sessions.js";

const main = document.getElementById("main");
const LOOKS = ["auto", "light", "dark"];

// The parts of a bank, under its name.
async function ofBank(id, part, rest, query) {
  const { banks: all } = await get(path("banks"));
  const found = all.find((one) => one.id === id) ?? all.find((one) => one.name === id);
  const name = found ? named(found) : id;
  document.title = `${name} · Satchel`;
  const tabs = [["", "Memories"], ["sessions", "Conversations"], ["import", "Import"], ["quarantine", "Quarantine"]];
  const place = el("div");
  into(place, () => {
    if (part === "e") return entry(id, rest[0]);
    if (part === "sessions") return sessions(id, rest[0], query);
    if (part === "import") return importing(found?.name ?? id);
    if (part === "quarantine") return quarantine(id);
    return bank(id, query);
  });
  return [
    el("p", { class: "small" }, link("#/", "Banks"), " / ", part === "e" ? link(to("b", id), name) : name),
    el("h1", {}, part === "e" ? "Memory" : name),
    el("nav", { class: "tabs", "aria-label": "Parts of the bank" }, tabs.map(([one, said]) =>
      el("a", { href: one ? to("b", id, one) : to("b", id), "aria-current": (part === "e" ? "" : part ?? "") === one ? "page" : null }, said))),
    place,
  ];
}

async function shown() {
  const [where, said] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const query = new URLSearchParams(said ?? "");
  const [page, ...rest] = parts;
  document.title = "Satchel";
  for (const one of document.querySelectorAll("#pages a")) {
    const is = one.getAttribute("href") === `#/${page === "b" ? "" : page ?? ""}`;
    if (is) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  const pages = {
    b: () => ofBank(rest[0], rest[1], rest.slice(2), query),
    import: () => [el("h1", {}, "Import"), importing()],
    verify: () => verifying(),
    receipts: () => receipts(rest[0]),
    backups: () => backups(),
  };
  await into(main, async () => {
    try {
      return await (pages[page] ?? banks)();
    } catch (error) {
      return error.status === 403 ? operator(error) : problem(error);
    }
  });
}

// Asked where an operator's token is set: it is kept until this tab is closed.
function operator(error) {
  const token = el("input", { type: "password", name: "token", required: true, autocomplete: "off" });
  return [
    el("h1", {}, "Who are you?"), problem(error),
    el("form", { onsubmit: (event) => { event.preventDefault(); signIn(token.value.trim()); shown(); } },
      el("label", { class: "wide" }, "The operator's token", token), el("button", {}, "Go on")),
  ];
}

const look = document.getElementById("look");
function looks(now) {
  const is = LOOKS.includes(now) ? now : "auto";
  document.documentElement.dataset.look = is;
  look.textContent = `Look: ${is}`;
  localStorage.setItem("satchel look", is);
}
look.addEventListener("click", () =>
  looks(LOOKS[(LOOKS.indexOf(document.documentElement.dataset.look) + 1) % LOOKS.length]));
looks(localStorage.getItem("satchel look"));

// A file that misses its place must not be opened by the browser instead of this page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", async () => {
  await shown();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select, dialog")) return;
  const search = document.querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
});
shown();
