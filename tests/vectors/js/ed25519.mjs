// did:key, the DSSE encoding, and Ed25519 as strict as libsodium with its valid-point check.

import { createPrivateKey, createPublicKey, verify as nodeVerify } from "node:crypto";

import { refuse, require } from "./refused.mjs";

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const DID_START = "did:key:z";
const KEY_PREFIX = Buffer.of(0xed, 0x01);
// What stands before the 32 bytes in a SubjectPublicKeyInfo for Ed25519 (RFC 8410).
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
// The same for the seed of a private key.
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

// ---- the curve, -x^2 + y^2 = 1 + d x^2 y^2, in extended coordinates

const mod = (value) => ((value % P) + P) % P;

function power(base, exponent) {
  let result = 1n;
  for (let square = mod(base), rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
}

const inverse = (value) => power(value, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n);
const IDENTITY = [0n, 1n, 1n, 0n];

function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = mod((y1 - x1) * (y2 - x2));
  const b = mod((y1 + x1) * (y2 + x2));
  const c = mod(2n * D * t1 * t2);
  const d = mod(2n * z1 * z2);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

function multiply(point, scalar) {
  let result = IDENTITY;
  for (let double = point, rest = scalar; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = add(result, double);
    double = add(double, double);
  }
  return result;
}

const isIdentity = ([x, y, z]) => x === 0n && y === z;
const littleEndian = (bytes) => BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);

// Returns the point, or null where the bytes are not the one encoding of a point.
function decompress(bytes) {
  const number = littleEndian(bytes);
  const sign = number >> 255n;
  const y = number & (2n ** 255n - 1n);
  if (y >= P) return null;
  const square = mod((y * y - 1n) * inverse(D * y * y + 1n));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x) !== square) x = mod(x * ROOT_OF_MINUS_ONE);
  if (mod(x * x) !== square) return null;
  if (x === 0n && sign === 1n) return null;
  if ((x & 1n) !== sign) x = mod(-x);
  return [x, y, 1n, mod(x * y)];
}

// On the curve, canonical, of the prime order: multiplied by the group order it must vanish.
// Node's own check lets small and mixed orders through, and then one signature fits many keys.
export function isValidPoint(bytes) {
  const point = decompress(bytes);
  return point !== null && !isIdentity(point) && isIdentity(multiply(point, L));
}

// R of small order, in its canonical and its other encodings (y or y + p, either sign bit).
function hasSmallOrder(bytes) {
  const y = mod(littleEndian(bytes) & (2n ** 255n - 1n));
  if (y === 0n || y === 1n || y === P - 1n) return true;
  const point = decompress(bytes);
  return point !== null && isIdentity(multiply(point, 8n));
}

// ---- texts

function base58(bytes) {
  let text = "";
  for (let rest = BigInt(`0x${bytes.toString("hex")}`); rest > 0n; rest /= 58n) {
    text = BASE58[Number(rest % 58n)] + text;
  }
  return text;
}

function fromBase58(text) {
  let number = 0n;
  for (const letter of text) {
    const digit = BASE58.indexOf(letter);
    require(digit >= 0, "a letter outside base58");
    number = number * 58n + BigInt(digit);
  }
  const hex = number.toString(16);
  return Buffer.from(hex.length % 2 ? `0${hex}` : hex, "hex");
}

export const didKey = (publicKey) => DID_START + base58(Buffer.concat([KEY_PREFIX, publicKey]));

// The form of the text alone: what a file must satisfy to be well formed.
export function publicKeyOf(did) {
  require(typeof did === "string" && did.startsWith(DID_START), "not a did:key");
  const bytes = fromBase58(did.slice(DID_START.length));
  require(bytes.length === 34 && bytes.subarray(0, 2).equals(KEY_PREFIX), "not an Ed25519 key");
  const publicKey = bytes.subarray(2);
  require(didKey(publicKey) === did, "not the canonical did:key");
  return publicKey;
}

// A key that may be used: well formed and a valid point.
export function readKey(did) {
  const publicKey = publicKeyOf(did);
  require(isValidPoint(publicKey), "not a valid point");
  return publicKey;
}

export function signatureBytes(text) {
  const bytes = typeof text === "string" ? Buffer.from(text, "base64") : refuse("not a text");
  require(bytes.toString("base64") === text, "not canonical base64");
  require(bytes.length === 64, "not 64 bytes");
  return bytes;
}

export function pae(type, payload) {
  const name = Buffer.from(type, "utf8");
  const start = Buffer.from(`DSSEv1 ${name.length} ${type} ${payload.length} `, "utf8");
  return Buffer.concat([start, payload]);
}

export const payloadType = (name) => `application/vnd.satchel.${name}.v1+json`;

// ---- verifying

export function publicKeyOfSeed(seed) {
  const der = Buffer.concat([PKCS8_PREFIX, seed]);
  const secret = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const out = createPublicKey(secret).export({ format: "der", type: "spki" });
  return out.subarray(SPKI_PREFIX.length);
}

export function verify(publicKey, message, signature) {
  if (littleEndian(signature.subarray(32)) >= L) return false;
  if (hasSmallOrder(signature.subarray(0, 32))) return false;
  const der = Buffer.concat([SPKI_PREFIX, publicKey]);
  const key = createPublicKey({ key: der, format: "der", type: "spki" });
  return nodeVerify(null, message, key, signature);
}

// `type` is what the caller expects, never what a file says about itself.
export function verifySigned(type, payload, did, signatureText) {
  return verify(readKey(did), pae(type, payload), signatureBytes(signatureText));
}
