// Makes elements. Whatever comes from memory gets into the page here, as text and nothing else.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return node;
}

// Signs that turn text around, or hide in it, are shown as what they are.
function plain(value) {
  return String(value).replace(
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu,
    (sign) => `\u27e8U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
}

export const el = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

export const link = (to, ...children) => el("a", { href: to }, ...children);

// The address of a part of this page; its names are escaped here.
export const to = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

export const count = (number, noun, many = noun + "s") =>
  `${Number(number).toLocaleString("en")} ${number === 1 ? noun : many}`;

export const short = (id) => {
  const text = String(id);
  const digits = text.slice(text.lastIndexOf(":") + 1);
  return digits.length > 14 ? digits.slice(0, 10) + "\u2026" : digits;
};

export const clipped = (text, most) => {
  const said = plain(text ?? "").replace(/\s+/g, " ").trim();
  const signs = Array.from(said);
  return signs.length > most ? signs.slice(0, most - 1).join("") + "\u2026" : said;
};

export const when = (text) => {
  const moment = new Date(text);
  if (!text || Number.isNaN(moment.getTime())) return text ?? "";
  const said = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return el("time", { datetime: text, title: text }, said);
};

export const bytes = (number) => {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; number >= 1000 && at < units.length - 1; at += 1) number /= 1000;
  return `${at ? number.toFixed(1) : number} ${units[at]}`;
};

export const chips = (...said) =>
  el("div", { class: "chips" }, said.flat().filter(Boolean).map((one) =>
    one instanceof Node ? one : el("span", { class: "chip" }, one)));

export const json = (value) => el("pre", {}, JSON.stringify(value, null, 2));

// What is known, name by name; what is not known is left out.
export const facts = (rows) =>
  el("dl", {}, Object.entries(rows).filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

export const table = (heads, rows) =>
  el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));

export const notes = (said) =>
  (said ?? []).length ? el("ul", { class: "warn" }, said.map((one) => el("li", {}, one))) : null;

export const problem = (error) =>
  el("div", { class: "problem", role: "alert" },
    el("p", {}, el("strong", {}, error.message)),
    error.hint ? el("p", { class: "soft" }, error.hint) : null,
    error.code ? el("p", { class: "soft mono" }, error.code) : null);

export function told(text) {
  const where = document.getElementById("told");
  where.textContent = text;
  clearTimeout(told.timer);
  told.timer = setTimeout(() => { where.textContent = ""; }, 6000);
}

// Shows what is being waited for, then what came of it, or what went wrong.
export async function into(place, work) {
  const mine = Symbol("work");
  place.work = mine;
  place.replaceChildren(el("p", { class: "soft" }, "One moment\u2026"));
  try {
    const found = await work();
    if (place.work === mine) place.replaceChildren(...[found].flat(Infinity).filter(Boolean));
  } catch (error) {
    if (place.work === mine) place.replaceChildren(problem(error));
  }
}
