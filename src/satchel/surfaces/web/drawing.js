// Drawings: when memories are of, where one comes from, and how conversations branch.

import { clipped, count, el, short, svg } from "./making.js";

const drawn = (width, height, said, ...parts) =>
  el("div", { class: "drawing" }, svg("svg", {
    class: "drawn", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": said,
  }, parts));

const room = () => document.getElementById("main").clientWidth - 44;

const TALL = 56, MOST_MONTHS = 60;

// Months, or years where there are too many of them, from the first to the last, with the empty ones.
function spans(months) {
  const names = Object.keys(months).sort();
  const [first, last] = [names[0], names.at(-1)].map((name) => name.split("-").map(Number));
  const long = (last[0] - first[0]) * 12 + last[1] - first[1] + 1;
  const found = new Map();
  if (long > MOST_MONTHS) {
    for (let year = first[0]; year <= last[0] && found.size < 400; year += 1) found.set(String(year), 0);
  } else {
    for (let at = 0; at < long; at += 1) {
      const month = first[1] - 1 + at;
      found.set(`${first[0] + Math.floor(month / 12)}-${String(month % 12 + 1).padStart(2, "0")}`, 0);
    }
  }
  for (const name of names) {
    const span = found.has(name) ? name : name.slice(0, 4);
    if (found.has(span)) found.set(span, found.get(span) + months[name]);
  }
  return [...found];
}

export const spanName = (span) => (span.length === 4 ? span
  : new Date(`${span}-01T00:00:00Z`).toLocaleString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }));

// How many memories are of which month. The same choice is a list beside it, for the keyboard.
export function timeline(months, chosen, address) {
  const bars = spans(months);
  const most = Math.max(...bars.map(([, much]) => much));
  const wide = Math.min(44, (room() - 8) / bars.length), gap = wide > 8 ? 2 : 0.5;
  let labelled = -Infinity;
  const parts = bars.map(([span, much], at) => {
    const x = 4 + at * wide, high = much ? Math.max(3, (much / most) * TALL) : 0;
    const label = span.length === 4 ? span : span.endsWith("-01") || at === 0 ? span.slice(0, 4) : null;
    const shown = label && x - labelled > 40 ? label : null;
    if (shown) labelled = x;
    return svg("a", { href: address(span === chosen ? null : span), tabindex: -1, "aria-hidden": "true", class: span === chosen ? "bar here" : "bar" },
      svg("title", {}, `${spanName(span)}: ${count(much, "memory", "memories")}`),
      svg("rect", { class: "room", x, y: 4, width: wide, height: TALL + 4 }),
      svg("rect", { class: "full", x: x + gap / 2, y: 8 + TALL - high, width: wide - gap, height: high, rx: Math.min(2, wide / 4) }),
      shown ? svg("text", { class: "soft", x: x + 1, y: TALL + 26 }, shown) : null);
  });
  return drawn(bars.length * wide + 8, TALL + 34, "When these memories are of", parts,
    svg("path", { class: "lane", d: `M4 ${TALL + 9}H${bars.length * wide + 4}` }));
}

const WIDE = 195, HIGH = 46, GAP = 56, ROW = 62, MOST = 12;

// What a memory was drawn from is on its left, what was drawn from it on its right.
export function provenance(near, address) {
  const at = new Map([[near.start.id, { thing: near.start, column: 0 }]]);
  for (const thing of near.things) {
    const out = thing.by.target === thing.id;
    const from = at.get(out ? thing.by.source : thing.by.target);
    if (from && !at.has(thing.id)) at.set(thing.id, { thing, column: from.column + (out ? -1 : 1) });
  }
  const columns = new Map();
  for (const one of at.values()) {
    const here = columns.get(one.column) ?? [];
    if (here.length === MOST) { one.out = true; continue; }
    columns.set(one.column, [...here, one]);
  }
  const left = [...at.values()].filter((one) => one.out).length;
  const least = Math.min(...columns.keys());
  const rows = Math.max(...[...columns.values()].map((all) => all.length));
  for (const [column, all] of columns) {
    all.forEach((one, place) => {
      one.x = 12 + (column - least) * (WIDE + GAP);
      one.y = 12 + (place + (rows - all.length) / 2) * ROW;
    });
  }
  const edges = near.things.map((thing) => {
    const [a, b] = [at.get(thing.by.target), at.get(thing.by.source)];
    if (!a || !b || a.out || b.out) return null;
    const [x1, y1, x2, y2] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
    const middle = (x1 + x2) / 2;
    return svg("path", { class: "edge", d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
  });
  const nodes = [...at.values()].filter((one) => !one.out).map(({ thing, x, y }) => {
    const own = thing.id === near.start.id;
    return svg("a", { href: address(thing.id), class: own ? "self" : null, "aria-current": own ? "true" : null },
      svg("title", {}, thing.text ?? thing.id),
      svg("rect", { class: "node", x, y, width: WIDE, height: HIGH, rx: 8 }),
      svg("text", { x: x + 10, y: y + 19 }, clipped(thing.text ?? short(thing.id), 26)),
      svg("text", { class: "soft", x: x + 10, y: y + 36 }, clipped([own ? "this one" : thing.type, thing.state === "current" ? "" : thing.state].filter(Boolean).join(", "), 28)));
  });
  const drawing = drawn(columns.size * (WIDE + GAP) - GAP + 24, rows * ROW + 10,
    `Drawn from ${count(near.things.length, "linked thing")}`, edges, nodes);
  const self = at.get(near.start.id);
  requestAnimationFrame(() => { drawing.scrollLeft = self.x - (drawing.clientWidth - WIDE) / 2; });
  return [
    drawing,
    el("p", { class: "soft small key" }, "Left of this one: what it was drawn from. Right of it: what was drawn from it."),
    left ? el("p", { class: "soft small" }, `${count(left, "more thing")} in the list below, not in the drawing.`) : null,
  ];
}

const LANE = 34, LEFT = 16, LABEL = 230, LEAST = 140, MOST_LONG = 640;

// Each session is a lane, as long as it has messages; a fork leaves its origin's lane where it began.
export function branches(sessions, chosen, points, address) {
  const lanes = new Map(sessions.map((one, place) => [one.id, { one, y: 22 + place * LANE }]));
  const long = Math.max(LEAST, Math.min(MOST_LONG, room() - LABEL - 16));
  const most = Math.max(1, ...sessions.map((one) => one.messages ?? 0));
  const x = (number) => LEFT + (Math.min(number, most) / most) * long;
  const parts = [...lanes.values()].map(({ one, y }) => {
    const from = one.origin && lanes.get(one.origin.session);
    const start = from ? x(one.origin.number) : LEFT;
    const end = Math.max(x(one.messages ?? 0), start + 14);
    const mine = points.filter((point) => point.session === one.id);
    return [
      svg("g", { class: one.id === chosen ? "here" : null },
        from ? svg("path", { class: "edge", d: `M${start} ${from.y}V${y - 8}Q${start} ${y} ${start + 8} ${y}` }) : null,
        svg("path", { class: "lane", d: `M${from ? start + 8 : start} ${y}H${end}` }),
        svg("a", { href: address(one.id), "aria-current": one.id === chosen ? "true" : null },
          svg("title", {}, `${one.name ?? "without a name"}, ${count(one.messages ?? 0, "message")}`),
          svg("circle", { class: "mark", cx: end, cy: y, r: 6 }),
          svg("text", { x: end + 12, y: y + 4 }, clipped(one.name ?? "without a name", 30)))),
      mine.map((point) => svg("a", { href: address(one.id, point.id) },
        svg("title", {}, `${point.name ?? point.why}: checkpoint at message ${point.number}`),
        svg("rect", { class: "mark", x: x(point.number) - 5, y: y - 5, width: 10, height: 10, transform: `rotate(45 ${x(point.number)} ${y})` }))),
    ];
  });
  // Below the rest, and wider where a checkpoint is: both can be clicked.
  const origins = [...lanes.values()].map(({ one }) => {
    const from = one.origin && lanes.get(one.origin.session);
    if (!from) return null;
    const at = x(one.origin.number);
    const kept = points.some((point) => point.session === one.origin.session && Math.abs(x(point.number) - at) < 12);
    return svg("a", { href: address(one.origin.session, String(one.origin.number)) },
      svg("title", {}, `${one.name ?? "a fork"} begins here, at message ${one.origin.number}`),
      svg("circle", { class: "origin", cx: at, cy: from.y, r: kept ? 10 : 5 }));
  });
  return [
    drawn(LEFT + long + LABEL, sessions.length * LANE + 14, "How these conversations branch", origins, parts),
    el("p", { class: "soft small key" }, "● the end of a conversation   ○ where a fork begins   ◆ a checkpoint"),
  ];
}
