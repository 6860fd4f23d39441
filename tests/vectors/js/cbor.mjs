// Deterministic CBOR (RFC 8949, 4.2.1), only the items that a JSON value needs.

import { MAX_DEPTH, checkNumber, checkText, decodeUtf8 } from "./json.mjs";
import { refuse, require } from "./refused.mjs";

const UNSIGNED = 0;
const NEGATIVE = 1;
const TEXT = 3;
const LIST = 4;
const OBJECT = 5;
const SIMPLE = 7;
const FALSE = 20;
const TRUE = 21;
const NULL = 22;
const HALF = 25;
const SINGLE = 26;
const DOUBLE = 27;

// ---- writing

function head(major, argument) {
  const top = major << 5;
  if (argument < 24) return Buffer.of(top | argument);
  if (argument < 2 ** 8) return Buffer.of(top | 24, argument);
  const size = argument < 2 ** 16 ? 2 : argument < 2 ** 32 ? 4 : 8;
  const out = Buffer.alloc(1 + size);
  out[0] = top | { 2: 25, 4: 26, 8: 27 }[size];
  if (size === 8) out.writeBigUInt64BE(BigInt(argument), 1);
  else out.writeUIntBE(argument, 1, size);
  return out;
}

// The 16 bits of a float that holds the value exactly, or null.
function halfBits(value) {
  const single = Buffer.alloc(4);
  single.writeFloatBE(value);
  if (single.readFloatBE() !== value) return null;
  const bits = single.readUInt32BE();
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 127;
  const fraction = bits & 0x7fffff;
  if (exponent >= -14 && exponent <= 15) {
    return fraction & 0x1fff ? null : sign | ((exponent + 15) << 10) | (fraction >>> 13);
  }
  if (exponent < -24 || exponent > 15) return null;
  // A subnormal counts in steps of 2^-24, so the hidden bit becomes visible and moves right.
  const steps = Math.abs(value) * 2 ** 24;
  return Number.isInteger(steps) ? sign | steps : null;
}

function encodeFloat(value) {
  const half = halfBits(value);
  if (half !== null) return Buffer.of((SIMPLE << 5) | HALF, half >>> 8, half & 0xff);
  const isSingle = Math.fround(value) === value;
  const out = Buffer.alloc(isSingle ? 5 : 9);
  out[0] = (SIMPLE << 5) | (isSingle ? SINGLE : DOUBLE);
  if (isSingle) out.writeFloatBE(value, 1);
  else out.writeDoubleBE(value, 1);
  return out;
}

// Minus zero is an integer too, since its canonical JSON text is 0.
function encodeNumber(value) {
  if (!Number.isInteger(value)) return encodeFloat(value);
  return value < 0 ? head(NEGATIVE, -1 - value) : head(UNSIGNED, Math.abs(value));
}

function encodeText(text) {
  const bytes = Buffer.from(text, "utf8");
  return Buffer.concat([head(TEXT, bytes.length), bytes]);
}

function encodeObject(members) {
  const pairs = [...members].map(([key, item]) => [encodeText(key), encode(item)]);
  pairs.sort(([a], [b]) => Buffer.compare(a, b));
  return Buffer.concat([head(OBJECT, pairs.length), ...pairs.flat()]);
}

export function encode(value) {
  if (typeof value === "string") return encodeText(value);
  if (typeof value === "number") return encodeNumber(value);
  if (Array.isArray(value)) return Buffer.concat([head(LIST, value.length), ...value.map(encode)]);
  if (value instanceof Map) return encodeObject(value);
  return Buffer.of((SIMPLE << 5) | (value === null ? NULL : value ? TRUE : FALSE));
}

// ---- reading

class Reader {
  constructor(bytes, maxDepth) {
    this.bytes = Buffer.from(bytes);
    this.at = 0;
    this.maxDepth = maxDepth;
  }

  document() {
    const value = this.item(0);
    require(this.at === this.bytes.length, `trailing bytes at ${this.at}`);
    return value;
  }

  take(count) {
    require(count <= this.bytes.length - this.at, "cut short");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  item(depth) {
    const first = this.take(1)[0];
    const major = first >>> 5;
    const info = first & 31;
    if (major === SIMPLE) return this.simple(info);
    const argument = this.argument(info);
    switch (major) {
      case UNSIGNED: return checkNumber(argument);
      case NEGATIVE: return checkNumber(-1 - argument);
      case TEXT: return checkText(decodeUtf8(this.take(argument)));
      case LIST: return this.list(argument, depth + 1);
      case OBJECT: return this.object(argument, depth + 1);
      default: return refuse(major === 2 ? "byte string" : "tag");
    }
  }

  argument(info) {
    if (info < 24) return info;
    require(info < 28, info === 31 ? "indefinite length" : "reserved");
    const size = 1 << (info - 24);
    const value = Number(BigInt(`0x${this.take(size).toString("hex")}`));
    const smallest = { 1: 24, 2: 2 ** 8, 4: 2 ** 16, 8: 2 ** 32 }[size];
    require(value >= smallest, "not the shortest form");
    return value;
  }

  list(count, depth) {
    require(depth <= this.maxDepth, "nested too deeply");
    const items = [];
    // A false count ends at the first missing byte, so it costs no memory.
    for (let i = 0; i < count; i += 1) items.push(this.item(depth));
    return items;
  }

  object(count, depth) {
    require(depth <= this.maxDepth, "nested too deeply");
    const members = new Map();
    let before = null;
    for (let i = 0; i < count; i += 1) {
      const start = this.at;
      require(this.bytes[start] >>> 5 === TEXT, "key is not text");
      const key = this.item(depth);
      const written = this.bytes.subarray(start, this.at);
      // Rising order, strictly: this finds duplicates as well.
      require(before === null || Buffer.compare(before, written) < 0, "keys out of order");
      before = written;
      members.set(key, this.item(depth));
    }
    return members;
  }

  simple(info) {
    if (info === FALSE) return false;
    if (info === TRUE) return true;
    if (info === NULL) return null;
    if (info === HALF) return this.float(3, readHalf(this.take(2)));
    if (info === SINGLE) return this.float(5, this.take(4).readFloatBE());
    if (info === DOUBLE) return this.float(9, this.take(8).readDoubleBE());
    return refuse(info === 23 ? "undefined" : "simple value");
  }

  float(size, value) {
    require(!Number.isInteger(checkNumber(value)), "integral float");
    require(encodeFloat(value).length === size, "float not shortest");
    return value;
  }
}

function readHalf(bytes) {
  const bits = bytes.readUInt16BE();
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function decode(bytes, maxDepth = MAX_DEPTH) {
  return new Reader(bytes, maxDepth).document();
}
