// Charts: memories by month, derivation of a memory, branches of conversations.

import { clipped, count, cued, el, number, short, svg } from "./elements.js";

const drawn = (width, height, label, ...parts) =>
  cued(el("div", { class: "drawing" }, svg("svg", {
    class: "drawn", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label,
  }, parts)));

const room = () => document.getElementById("main").clientWidth - 44;

const TALL = 72, TOP = 20, LEFT_AXIS = 30, MOST_MONTHS = 60, LEAST_MONTHS = 6, BAR = 56;

// Months, or years if there are too many, from the first to the last, including empty ones.
function spans(months) {
  const names = Object.keys(months).sort();
  const [first, last] = [names[0], names.at(-1)].map((name) => name.split("-").map(Number));
  let long = (last[0] - first[0]) * 12 + last[1] - first[1] + 1;
  for (; long < LEAST_MONTHS; long += 1) {
    first[1] -= 1;
    if (first[1] === 0) [first[0], first[1]] = [first[0] - 1, 12];
  }
  const result = new Map();
  if (long > MOST_MONTHS) {
    for (let year = first[0]; year <= last[0] && result.size < 400; year += 1) result.set(String(year), 0);
  } else {
    for (let at = 0; at < long; at += 1) {
      const month = first[1] - 1 + at;
      result.set(`${first[0] + Math.floor(month / 12)}-${String(month % 12 + 1).padStart(2, "0")}`, 0);
    }
  }
  for (const name of names) {
    const span = result.has(name) ? name : name.slice(0, 4);
    if (result.has(span)) result.set(span, result.get(span) + months[name]);
  }
  return [...result];
}

export const spanName = (span) => (span.length === 4 ? span
  : new Date(`${span}-01T00:00:00Z`).toLocaleString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }));

const monthName = (span) => new Date(`${span}-01T00:00:00Z`).toLocaleString("en-GB", { month: "short", timeZone: "UTC" });

// The end of an axis: a number that is easily halved.
function ceiling(most) {
  for (let unit = 1; ; unit *= 10) {
    for (const step of [1, 2, 4, 6, 8, 10]) if (step * unit >= most) return step * unit;
  }
}

// Number of memories by month. A list beside it offers the same choice for the keyboard.
export function timeline(months, chosen, address) {
  const bars = spans(months), most = ceiling(Math.max(...bars.map(([, much]) => much)));
  const width = Math.max(240, room()), wide = (width - LEFT_AXIS - 8) / bars.length;
  const every = [1, 2, 3, 6, 12].find((months) => months * wide >= 34) ?? 12, years = bars[0][0].length === 4;
  const step = Math.max(1, Math.ceil(40 / wide));
  const y = (much) => TOP + TALL - (much / most) * TALL;
  const lines = (most === 1 ? [0, 1] : [0, most / 2, most]).map((much) => [
    svg("path", { class: "grid", d: `M${LEFT_AXIS} ${y(much)}H${width - 4}` }),
    svg("text", { class: "soft", x: LEFT_AXIS - 6, y: y(much) + 4, "text-anchor": "end" }, short(number(much)))]);
  const parts = bars.map(([span, much], at) => {
    const x = LEFT_AXIS + at * wide, middle = x + wide / 2, bar = Math.min(BAR, wide * 0.82);
    const month = Number(span.slice(5));
    const label = years ? (at % step ? null : span) : (month - 1) % every ? null : monthName(span);
    return svg("a", { href: address(span === chosen ? null : span), tabindex: -1, "aria-hidden": "true", class: span === chosen ? "bar here" : "bar" },
      svg("title", {}, `${spanName(span)}: ${count(much, "memory", "memories")}`),
      svg("rect", { class: "room", x, y: TOP - 16, width: wide, height: TALL + 16 }),
      svg("rect", { class: "full", x: middle - bar / 2, y: much ? Math.min(y(much), TOP + TALL - 3) : TOP + TALL, width: bar, height: much ? Math.max(3, TOP + TALL - y(much)) : 0, rx: Math.min(2, wide / 4) }),
      much && wide >= 26 ? svg("text", { class: "count", x: middle, y: Math.min(y(much), TOP + TALL - 3) - 5, "text-anchor": "middle" }, number(much)) : null,
      label ? svg("text", { class: "soft", x: middle, y: TOP + TALL + 17, "text-anchor": "middle" }, label) : null,
      !years && (month === 1 || at === 0) && x < width - 30 ? svg("text", { class: "soft year", x: middle, y: TOP + TALL + 33, "text-anchor": "middle" }, span.slice(0, 4)) : null);
  });
  return drawn(width, TOP + TALL + (years ? 24 : 40), `Memories by ${years ? "year" : "month"} in which they happened or were created`, lines, parts);
}

const WIDE = 195, HIGH = 46, GAP = 56, ROW = 62, MOST = 12, NARROW = 560, INDENT = 22;

// Sources of a memory are on its left, memories derived from it on its right; on a narrow screen above
// and below.
export function provenance(near, address, retracted = []) {
  const at = new Map([[near.start.id, { record: near.start, column: 0 }]]);
  for (const record of near.things) {
    const out = record.by.target === record.id;
    const from = at.get(out ? record.by.source : record.by.target);
    if (from && !at.has(record.id)) at.set(record.id, { record, column: from.column + (out ? -1 : 1) });
  }
  const columns = new Map();
  for (const item of at.values()) {
    const here = columns.get(item.column) ?? [];
    if (here.length === MOST) { item.out = true; continue; }
    columns.set(item.column, [...here, item]);
  }
  const left = [...at.values()].filter((item) => item.out).length;
  const least = Math.min(...columns.keys()), narrow = room() < NARROW;
  const rows = Math.max(...[...columns.values()].map((all) => all.length));
  let placed = 0, wide = WIDE;
  if (narrow) wide = Math.max(150, room() - 24 - (columns.size - 1) * INDENT);
  for (const column of [...columns.keys()].sort((item, other) => item - other)) {
    columns.get(column).forEach((item, index) => {
      const all = columns.get(column);
      item.x = 12 + (column - least) * (narrow ? INDENT : WIDE + GAP);
      item.y = 12 + (narrow ? placed : index + (rows - all.length) / 2) * ROW;
      placed += 1;
    });
  }
  const curve = (a, b) => {
    if (narrow) return `M${a.x + 9} ${a.y + HIGH}V${b.y + HIGH / 2 - 8}Q${a.x + 9} ${b.y + HIGH / 2} ${Math.max(b.x, a.x + 17)} ${b.y + HIGH / 2}`;
    const [x1, y1, x2, y2] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2], middle = (x1 + x2) / 2;
    return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  };
  const edges = near.things.map((record) => {
    const [a, b] = [at.get(record.by.target), at.get(record.by.source)];
    return !a || !b || a.out || b.out ? null : svg("path", { class: "edge", d: curve(a, b) });
  });
  const most = Math.floor((wide - 20) / 6.6);
  const nodes = [...at.values()].filter((item) => !item.out).map(({ record, x, y }) => {
    const own = record.id === near.start.id, gone = record.state !== "current";
    const look = [own ? "self" : "", gone ? "gone" : "", retracted.includes(record.id) ? "retracted" : ""].filter(Boolean).join(" ");
    return svg("a", { href: address(record.id), class: look || null, "aria-current": own ? "true" : null },
      svg("title", {}, record.memory?.text ?? record.id),
      svg("rect", { class: "node", x, y, width: wide, height: HIGH, rx: 8 }),
      svg("text", { x: x + 10, y: y + 19 }, clipped(record.memory?.text || short(record.id), most)),
      svg("text", { class: "soft", x: x + 10, y: y + 36 }, clipped([own ? "this memory" : record.type, gone ? record.state : ""].filter(Boolean).join(", "), most)));
  });
  const drawing = narrow
    ? drawn(24 + wide + (columns.size - 1) * INDENT, placed * ROW + 10, `Provenance: ${count(near.things.length, "linked record")}`, edges, nodes)
    : drawn(columns.size * (WIDE + GAP) - GAP + 24, rows * ROW + 10, `Provenance: ${count(near.things.length, "linked record")}`, edges, nodes);
  const self = at.get(near.start.id);
  requestAnimationFrame(() => { drawing.scrollLeft = self.x - (drawing.clientWidth - WIDE) / 2; });
  return [
    drawing,
    el("p", { class: "soft small key" }, narrow ? "Above this memory: what it derives from. Below: what derives from it."
      : "Left of this memory: what it derives from. Right: what derives from it."),
    left ? el("p", { class: "soft small" }, `${count(left, "more record")} in the list below.`) : null,
  ];
}

const LANE = 34, LEFT = 16, LABEL = 230, LEAST = 140, MOST_LONG = 640;

// Each session is a lane; a fork leaves the lane of its source at its point.
export function branches(sessions, chosen, points, address) {
  const lanes = new Map(sessions.map((item, index) => [item.id, { item, y: 22 + index * LANE }]));
  const long = Math.max(LEAST, Math.min(MOST_LONG, room() - LABEL - 16));
  const most = Math.max(1, ...sessions.map((item) => item.messages ?? 0));
  const x = (number) => LEFT + (Math.min(number, most) / most) * long;
  const parts = [...lanes.values()].map(({ item, y }) => {
    const from = item.origin && lanes.get(item.origin.session);
    const start = from ? x(item.origin.number) : LEFT;
    const end = Math.max(x(item.messages ?? 0), start + 14);
    const own = points.filter((point) => point.session === item.id);
    return [
      svg("g", { class: item.id === chosen ? "here" : null },
        from ? svg("path", { class: "edge", d: `M${start} ${from.y}V${y - 8}Q${start} ${y} ${start + 8} ${y}` }) : null,
        svg("path", { class: "lane", d: `M${from ? start + 8 : start} ${y}H${end}` }),
        svg("a", { href: address(item.id), "aria-current": item.id === chosen ? "true" : null },
          svg("title", {}, `${item.name ?? "untitled"}, ${count(item.messages ?? 0, "message")}`),
          svg("circle", { class: "mark", cx: end, cy: y, r: 6 }),
          svg("text", { x: end + 12, y: y + 4 }, clipped(item.name ?? "untitled", 30)))),
      own.map((point) => svg("a", { href: address(item.id, point.id) },
        svg("title", {}, `${point.name ?? point.why}: checkpoint at message ${point.number}`),
        svg("rect", { class: "mark", x: x(point.number) - 5, y: y - 5, width: 10, height: 10, transform: `rotate(45 ${x(point.number)} ${y})` }))),
    ];
  });
  // Below the rest, and wider at a checkpoint, so that both can be clicked.
  const origins = [...lanes.values()].map(({ item }) => {
    const from = item.origin && lanes.get(item.origin.session);
    if (!from) return null;
    const at = x(item.origin.number);
    const kept = points.some((point) => point.session === item.origin.session && Math.abs(x(point.number) - at) < 12);
    return svg("a", { href: address(item.origin.session, String(item.origin.number)) },
      svg("title", {}, `${item.name ?? "a fork"} starts here, at message ${item.origin.number}`),
      svg("circle", { class: "origin", cx: at, cy: from.y, r: kept ? 10 : 5 }));
  });
  return [
    drawn(LEFT + long + LABEL, sessions.length * LANE + 14, "How these conversations branch", origins, parts),
    el("p", { class: "soft small key" }, "● end of a conversation   ○ start of a fork   ◆ checkpoint"),
  ];
}
