// A record and its id.

import { hashText } from "./blake3.mjs";
import { canonical } from "./json.mjs";

export const HASH_TEXT = /^blake3:[0-9a-f]{64}$/;
const NONCE = /^[0-9a-f]{32}$/;

// Only the top-level id is left out, and nothing else: a null member is hashed as it came.
export function hashedBytes(record) {
  const rest = new Map(record);
  rest.delete("id");
  return canonical(rest);
}

export const recordId = (record) => hashText(hashedBytes(record));

export const hasRecordShape = (record) =>
  typeof record.get("type") === "string" &&
  NONCE.test(record.get("nonce") ?? "") &&
  HASH_TEXT.test(record.get("id") ?? "");

export const idHolds = (record) => record.get("id") === recordId(record);
