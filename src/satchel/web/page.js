// The page: its parts and their addresses, signing in, light and dark.

import { owners, tokens } from "./access.js";
import { bank, banks, bankName } from "./banks.js";
import { comparison } from "./comparison.js";
import { cued, el, empty, link, plain, to } from "./elements.js";
import { exportView } from "./export.js";
import { load, operator } from "./feedback.js";
import { files } from "./files.js";
import { graph } from "./graph.js";
import { importView } from "./import.js";
import { jobs } from "./jobs.js";
import { log } from "./log.js";
import { entry } from "./memory.js";
import { backups, quarantine } from "./protection.js";
import { receipts } from "./receipts.js";
import { gate, get, path, signIn } from "./requests.js";
import { sessions } from "./sessions.js";
import { settings } from "./settings.js";
import { verification } from "./verification.js";

const main = document.getElementById("main");
const LOOKS = ["auto", "light", "dark"];
const PARTS = [
  ["", "Memories"], ["sessions", "Conversations"], ["files", "Files"],
  ["graph", "Graph"], ["log", "Log"], ["compare", "Compare"], ["import", "Import"], ["export", "Export"],
  ["quarantine", "Quarantine"], ["tokens", "Tokens"], ["owners", "Owners"],
];

cued(document.getElementById("pages"));
gate.ask = (wrong) => operator(wrong, signIn);

// The parts of a bank, under its name.
async function ofBank(id, part, rest, query) {
  const { banks: all } = await get(path("banks"));
  const result = all.find((item) => item.id === id) ?? all.find((item) => item.name === id);
  const name = result ? bankName(result) : id;
  id = result?.id ?? id; // whatever a name has in it
  document.title = `${plain(name)} · Satchel`;
  const container = el("div"), is = part === "e" ? "" : part ?? "";
  const parts = {
    e: () => entry(id, rest[0], show),
    sessions: () => sessions(id, rest[0], query, show),
    files: () => files(id, rest[0], query),
    graph: () => graph(id, query),
    log: () => log(id, query),
    compare: () => comparison(id, query),
    import: () => importView(id),
    export: () => exportView(id, query),
    quarantine: () => quarantine(id, show),
    tokens: () => tokens(id),
    owners: () => owners(id),
  };
  const show = () => load(container, () => (Object.hasOwn(parts, part) ? parts[part] : part === undefined ? () => bank(id, query, show) : lost)());
  show();
  return [
    el("p", { class: "small path" }, link("#/", "Banks"), " / ", part === "e" ? link(to("b", id), name) : name),
    el("h1", { class: "clip" }, part === "e" ? "Memory" : name),
    cued(el("nav", { class: "tabs", "aria-label": "Parts of the bank" }, PARTS.map(([item, label]) =>
      el("a", { href: item ? to("b", id, item) : to("b", id), "aria-current": is === item ? "page" : null }, label)))),
    container,
  ];
}

const lost = () => [el("h1", {}, "Page not found"), empty("This address is not part of the page.", link("#/", "Go to the banks"))];

async function shown() {
  const [where, search] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const query = new URLSearchParams(search ?? "");
  const [page = "", ...rest] = parts;
  for (const item of document.querySelectorAll("#pages a")) {
    const is = item.getAttribute("href") === `#/${page === "b" ? "" : page}`;
    if (is) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
    if (is) document.title = `${item.textContent} · Satchel`;
  }
  const pages = {
    "": () => banks(query),
    b: () => ofBank(rest[0], rest[1], rest.slice(2), query),
    import: () => [el("h1", {}, "Import"), importView()],
    verify: () => verification(),
    jobs: () => jobs(),
    receipts: () => receipts(rest[0], query),
    backups: () => backups(),
    settings: () => settings(),
  };
  await load(main, async () => (Object.hasOwn(pages, page) ? pages[page] : lost)());
  for (const item of document.querySelectorAll("nav [aria-current=page]")) {
    item.parentElement.scrollLeft = item.offsetLeft - item.parentElement.offsetLeft - 40;
  }
}

const look = document.getElementById("look");
function looks(now) {
  const is = LOOKS.includes(now) ? now : "auto";
  document.documentElement.dataset.look = is;
  look.textContent = `Theme: ${is}`;
  localStorage.setItem("satchel look", is);
}
look.addEventListener("click", () =>
  looks(LOOKS[(LOOKS.indexOf(document.documentElement.dataset.look) + 1) % LOOKS.length]));
looks(localStorage.getItem("satchel look"));

// The browser must not open a file that is dropped elsewhere on the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", async () => {
  document.querySelector("dialog[open]")?.close(); // it belongs to the part that was left
  await shown();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select, dialog")) return;
  const search = document.querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
});
shown();
