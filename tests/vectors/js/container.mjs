// Takes any of the three encodings apart into {statement, signatures, body, sections}.
// Whatever is thrown here means: not a well formed artifact.

import { decode } from "./cbor.mjs";
import { MAX_DEPTH, canonical, depthOf, parse } from "./json.mjs";
import { refuse, require } from "./refused.mjs";

const PREAMBLE = Buffer.from('{"format":"satchel/1"}\n');
const MAGIC = Buffer.from("PAM\x01", "latin1");
const LF = 10;
const SECTION_NAME = /^[a-z][a-z0-9_]{0,63}$/;
export const COMPONENTS = ["episodic", "identity", "procedural", "semantic", "working"];
const PARTS = ["statement", "signatures", "components"];
const ORDER = [
  "keys", "redactions", "erasures", ...COMPONENTS, "status", "sources", "nodes", "edges",
  "sessions", "files", "workspace", "config", "statistics", "embeddings", "blobs", "receipts",
  "withheld",
];
// A whole document holds a record three levels down: document, components, section.
const DOCUMENT_DEPTH = MAX_DEPTH + 3;

const startsWith = (bytes, start) => bytes.subarray(0, start.length).equals(start);

export function open(bytes) {
  if (startsWith(bytes, PREAMBLE)) return fromLines(bytes);
  if (startsWith(bytes, MAGIC)) {
    return fromValue(decode(bytes.subarray(MAGIC.length), DOCUMENT_DEPTH));
  }
  return fromValue(parse(bytes, DOCUMENT_DEPTH));
}

// ---- lines

// The body stays bytes until it is known to be what was signed.
function fromLines(bytes) {
  require(bytes.at(-1) === LF, "the last line does not end");
  const start = bytes.lastIndexOf(LF, bytes.length - 2) + 1;
  require(start >= PREAMBLE.length, "no last line");
  const last = parseLine(bytes.subarray(start, bytes.length - 1));
  requireMembers(last, ["signatures", "statement"]);
  const body = bytes.subarray(PREAMBLE.length, start);
  return { ...signed(last), body, sections: () => readBody(body) };
}

function parseLine(line) {
  const value = parse(line, MAX_DEPTH + 1);
  require(value instanceof Map, "a line is not an object");
  require(canonical(value).equals(line), "a line is not canonical");
  return value;
}

function readBody(body) {
  const sections = new Map();
  let records = null;
  for (const line of lines(body)) {
    const value = parseLine(line);
    if (isSectionLine(value)) {
      records = [];
      addSection(sections, value.get("section"), records);
    } else {
      require(records !== null, "a record before the first section");
      records.push(value);
    }
  }
  checkSections(sections);
  return sections;
}

function* lines(body) {
  for (let start = 0; start < body.length; ) {
    const end = body.indexOf(LF, start);
    yield body.subarray(start, end);
    start = end + 1;
  }
}

const isSectionLine = (value) => value.size === 1 && value.has("section");

function addSection(sections, name, records) {
  const before = [...sections.keys()].at(-1);
  require(before === undefined || compareSections(before, name) < 0, "a section twice or too late");
  sections.set(name, records);
}

// ---- one value

function fromValue(value) {
  require(value instanceof Map, "not an object");
  for (const part of PARTS) require(value.has(part), `no ${part}`);
  const sections = sectionsOfValue(value);
  const body = Buffer.concat([...sections].flatMap(([name, records]) => bodyLines(name, records)));
  return { ...signed(value), body, sections: () => sections };
}

function sectionsOfValue(value) {
  const components = value.get("components");
  require(components instanceof Map, "components is not an object");
  requireMembers(components, COMPONENTS);
  const found = [...value].filter(([name]) => !PARTS.includes(name));
  for (const [name, records] of found) {
    require(!COMPONENTS.includes(name), `${name} beside the components`);
    require(Array.isArray(records), `${name} is not a list`);
  }
  for (const [name, records] of components) {
    require(Array.isArray(records), `${name} is not a list`);
    if (records.length > 0) found.push([name, records]);
  }
  const sections = new Map(found.sort(([a], [b]) => compareSections(a, b)));
  checkSections(sections);
  return sections;
}

function bodyLines(name, records) {
  const section = new Map([["section", name]]);
  return [section, ...records].flatMap((record) => [canonical(record), Buffer.of(LF)]);
}

// ---- both

const rank = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

// Section names are ASCII, so comparing texts compares bytes.
function compareSections(a, b) {
  return rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0);
}

function checkSections(sections) {
  for (const [name, records] of sections) {
    require(SECTION_NAME.test(name), `no section name: ${name}`);
    require(!PARTS.includes(name), `a section named ${name}`);
    require(records.length > 0, `${name} is empty`);
    for (const record of records) {
      require(record instanceof Map, `a record of ${name} is not an object`);
      // In lines it would be taken for the start of a section.
      require(!isSectionLine(record), `a record of ${name} looks like a section line`);
      require(depthOf(record) <= MAX_DEPTH, `a record of ${name} is too deep`);
    }
  }
}

function signed(value) {
  const statement = value.get("statement");
  const signatures = value.get("signatures");
  require(statement instanceof Map, "the statement is not an object");
  require(depthOf(statement) <= MAX_DEPTH, "the statement is too deep");
  require(Array.isArray(signatures), "signatures is not a list");
  return { statement, signatures };
}

export function requireMembers(value, names) {
  const same = value.size === names.length && names.every((name) => value.has(name));
  if (!same) refuse(`members are not exactly ${names.join(", ")}`);
}
