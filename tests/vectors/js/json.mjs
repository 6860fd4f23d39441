// Strict JSON in, canonical JSON (RFC 8785) out.
// Objects are Maps: a plain object would reorder keys of digits and trip over "__proto__".

import { refuse, require } from "./refused.mjs";

export const MAX_DEPTH = 64;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const SHORT_ESCAPES = {
  '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t",
};
const WORDS = [["true", true], ["false", false], ["null", null]];

export function decodeUtf8(bytes) {
  try {
    return UTF8.decode(bytes);
  } catch {
    return refuse("invalid UTF-8");
  }
}

// The one rule about numbers, for JSON and CBOR alike.
export function checkNumber(value) {
  require(Number.isFinite(value), "a number is not finite");
  const tooLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  require(!tooLarge, "a number is integral and beyond 2^53-1");
  return value;
}

export function checkText(text) {
  require(text.isWellFormed(), "lone surrogate");
  return text;
}

class Parser {
  constructor(text, maxDepth) {
    this.text = text;
    this.at = 0;
    this.maxDepth = maxDepth;
  }

  document() {
    const value = this.value(0);
    this.space();
    require(this.at === this.text.length, `trailing bytes at ${this.at}`);
    return value;
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  take(character) {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  expect(character) {
    require(this.take(character), `no ${character} at ${this.at}`);
  }

  value(depth) {
    if (this.take("{")) return this.object(depth + 1);
    if (this.take("[")) return this.list(depth + 1);
    if (this.take('"')) return this.string();
    for (const [word, meaning] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning;
      }
    }
    return this.number();
  }

  object(depth) {
    require(depth <= this.maxDepth, "nested too deeply");
    const members = new Map();
    if (this.take("}")) return members;
    do {
      this.expect('"');
      const key = this.string();
      require(!members.has(key), `duplicate key before ${this.at}`);
      this.expect(":");
      members.set(key, this.value(depth));
    } while (this.take(","));
    this.expect("}");
    return members;
  }

  list(depth) {
    require(depth <= this.maxDepth, "nested too deeply");
    const items = [];
    if (this.take("]")) return items;
    do items.push(this.value(depth));
    while (this.take(","));
    this.expect("]");
    return items;
  }

  string() {
    let result = "";
    for (;;) {
      const character = this.text[this.at];
      require(character !== undefined, "a text does not end");
      require(character >= " ", `raw control character at ${this.at}`);
      this.at += 1;
      if (character === '"') return checkText(result);
      result += character === "\\" ? this.escape() : character;
    }
  }

  escape() {
    const letter = this.text[this.at];
    this.at += 1;
    if (letter !== "u") return SHORT_ESCAPES[letter] ?? refuse(`unknown escape at ${this.at}`);
    const digits = this.text.slice(this.at, this.at + 4);
    require(/^[0-9a-fA-F]{4}$/.test(digits), `bad escape at ${this.at}`);
    this.at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }

  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    require(match !== null, `no value at ${this.at}`);
    this.at = NUMBER.lastIndex;
    return checkNumber(Number(match[0]));
  }
}

export function parse(bytes, maxDepth = MAX_DEPTH) {
  return new Parser(decodeUtf8(bytes), maxDepth).document();
}

// Limits such as the depth of a record hold wherever the record is nested.
export function depthOf(value) {
  if (!Array.isArray(value) && !(value instanceof Map)) return 0;
  let deepest = 0;
  for (const item of value.values()) deepest = Math.max(deepest, depthOf(item));
  return deepest + 1;
}

// JavaScript's own number-to-text and string escapes are what RFC 8785 is defined by.
export function canonicalText(value) {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (value instanceof Map) {
    const keys = [...value.keys()].sort(); // the default order is by UTF-16 units
    const members = keys.map((key) => `${JSON.stringify(key)}:${canonicalText(value.get(key))}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

export const canonical = (value) => Buffer.from(canonicalText(value), "utf8");
