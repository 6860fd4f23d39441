// The judgment of an artifact: steps 1-4 and 6-8, always in depth. Freshness, successions, several
// owners and adoptions are outside this checker.

import { hashText } from "./blake3.mjs";
import { COMPONENTS, open, requireMembers } from "./container.mjs";
import * as ed25519 from "./ed25519.mjs";
import { canonical } from "./json.mjs";
import { judgeLog, tombstones, withheldEntries } from "./log.mjs";
import { HASH_TEXT, hasRecordShape, idHolds } from "./record.mjs";
import { Refused, require } from "./refused.mjs";

const TYPE = ed25519.payloadType("artifact");
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/;
const MAX_SIGNATURES = 16;
const SCOPES = ["full", "filter", "disclosure", "increment"];
const REQUIRED = ["format", "created_at", "body_hash", "root_hash", "counts", "scope"];
const KNOWN = [...REQUIRED, "source_agent", "bank", "head", "tokens", "metadata", "critical"];
const TYPE_OF_SECTION = {
  keys: "bank", redactions: "redaction", erasures: "erasure", episodic: "episodic",
  identity: "identity", procedural: "procedural", semantic: "semantic", working: "working",
  status: "status", sources: "source", nodes: "graph_node", edges: "edge",
  sessions: "session_event", files: "file_version", config: "config", embeddings: "embedding",
  blobs: "blob", receipts: "receipt", tokens: "token",
};

// Returns {outcome, why} and, where they were reached, what the file holds.
export function verify(bytes, trusted) {
  try {
    return judge(open(bytes), trusted);
  } catch (error) {
    if (error instanceof Refused) return { outcome: "malformed", why: error.message };
    throw error;
  }
}

function judge(file, trusted) {
  const { statement, signatures } = file;
  checkStatement(statement);
  signatures.forEach(checkSignatureShape);
  require(signatures.length <= MAX_SIGNATURES, "too many signatures");
  const keys = new Set(signatures.map((signature) => signature.get("key")));
  require(keys.size === signatures.length, "a key signs twice");
  const signers = validSigners(statement, signatures);
  const bodyHash = hashText(file.body);
  if (signatures.length > 0 && signers.length === 0) return tampered("no signature holds");
  // Bytes that nobody vouches for are not read further.
  if (statement.get("body_hash") !== bodyHash) return tampered("body_hash");
  const sections = file.sections();
  const computed = { bodyHash, rootHash: rootHash(sections), counts: counts(sections) };
  const found = { sections, signers, ...computed };
  const untrue = checkRecords(sections) ?? checkClaims(statement, found);
  if (untrue) return tampered(untrue);
  const log = judgeLog(statement, sections);
  if (log.untrue) return tampered(log.untrue);
  return { ...found, ...standing(sections, signers, signatures, trusted, log.lacks) };
}

const tampered = (why) => ({ outcome: "tampered", why });

function standing(sections, signers, signatures, trusted, lacks) {
  const missing = missingParent(sections) ?? lacks;
  if (missing) return { outcome: "incomplete", why: `no parent ${missing}` };
  if (signatures.length === 0) return { outcome: "unsigned", why: "no signature" };
  const known = signers.some((did) => trusted.includes(did));
  return known ? { outcome: "good", why: "" } : { outcome: "untrusted", why: "unknown key" };
}

// ---- the statement

const isEmpty = (value) =>
  value === null ||
  (Array.isArray(value) && value.length === 0) ||
  (value instanceof Map && value.size === 0);

function checkStatement(statement) {
  for (const name of REQUIRED) require(statement.has(name), `no ${name}`);
  for (const [name, value] of statement) {
    require(name === "counts" || !isEmpty(value), `${name} is empty`);
  }
  require(statement.get("format") === "satchel/1", "another format");
  require(isTime(statement.get("created_at")), "created_at is not a time");
  for (const name of ["body_hash", "root_hash"]) {
    require(HASH_TEXT.test(statement.get(name)), `${name} is not a hash`);
  }
  checkCounts(statement.get("counts"));
  const scope = statement.get("scope");
  require(scope instanceof Map && SCOPES.includes(scope.get("kind")), "scope is unknown");
  checkCritical(statement.get("critical") ?? []);
}

function isTime(text) {
  if (typeof text !== "string" || !TIME.test(text)) return false;
  // A day that does not exist comes back as another one, or not at all.
  const date = new Date(`${text.slice(0, 23)}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 23) === text.slice(0, 23);
}

function checkCounts(value) {
  require(value instanceof Map, "counts is not an object");
  for (const count of value.values()) {
    require(Number.isSafeInteger(count) && count > 0, "a count is not a positive integer");
  }
}

function checkCritical(names) {
  require(Array.isArray(names), "critical is not a list");
  for (const name of names) require(KNOWN.includes(name), `critical and unknown: ${name}`);
}

// ---- signatures

// A signature that is not even written properly makes the file malformed; one that is written
// properly and does not hold is only a signature that does not count.
function checkSignatureShape(signature) {
  require(signature instanceof Map, "a signature is not an object");
  requireMembers(signature, ["key", "sig"]);
  require(typeof signature.get("key") === "string", "a key is not a text");
  require(typeof signature.get("sig") === "string", "a sig is not a text");
}

function validSigners(statement, signatures) {
  const message = ed25519.pae(TYPE, canonical(statement));
  // What is no key or no signature is an invalid signature, and no reason to refuse the file.
  const holds = (signature) => {
    try {
      const publicKey = ed25519.publicKeyOf(signature.get("key"));
      const bytes = ed25519.signatureBytes(signature.get("sig"));
      return ed25519.isValidPoint(publicKey) && ed25519.verify(publicKey, message, bytes);
    } catch (error) {
      if (error instanceof Refused) return false;
      throw error;
    }
  };
  return signatures.filter(holds).map((signature) => signature.get("key"));
}

// ---- records

const counts = (sections) =>
  new Map([...sections].map(([name, records]) => [name, records.length]));

function rootHash(sections) {
  return hashText(canonical(new Map(COMPONENTS.map((name) => [name, sections.get(name) ?? []]))));
}

function checkClaims(statement, found) {
  if (statement.get("root_hash") !== found.rootHash) return "root_hash";
  const same = canonical(statement.get("counts")).equals(canonical(found.counts));
  return same ? null : "counts";
}

// Returns what is untrue; throws where a record is not what its section may hold.
function checkRecords(sections) {
  const seen = new Set();
  for (const [name, records] of sections) {
    for (const record of records) {
      const untrue = checkRecord(name, record, seen);
      if (untrue) return untrue;
    }
  }
  return null;
}

function checkRecord(section, record, seen) {
  if (section === "proofs" || section === "withheld") return null;
  const type = TYPE_OF_SECTION[section];
  if (type === undefined && !(record.has("nonce") && record.has("id"))) return null;
  require(type === undefined || record.get("type") === type, `an unexpected record in ${section}`);
  const isForm = COMPONENTS.includes(section) && !record.has("nonce") && HASH_TEXT.test(record.get("id"));
  require(isForm || hasRecordShape(record), `a record of ${section} lacks type, nonce or id`);
  if (seen.has(record.get("id"))) return "an id twice";
  seen.add(record.get("id"));
  if (!isForm && !idHolds(record)) return `an id of ${section} does not recompute`;
  return section === "blobs" ? checkBlob(record) : null;
}

function checkBlob(record) {
  const data = Buffer.from(record.get("data"), "base64");
  require(data.toString("base64") === record.get("data"), "the data of a blob is not base64");
  return hashText(data) === record.get("digest") ? null : "the digest of a blob is not its data's";
}

function missingParent(sections) {
  const entries = COMPONENTS.flatMap((name) => sections.get(name) ?? []);
  const others = [...tombstones(sections), ...withheldEntries(sections)];
  const present = new Set([...entries.map((entry) => entry.get("id")), ...others]);
  const parents = entries.flatMap((entry) => entry.get("parent_ids") ?? []);
  return parents.find((id) => !present.has(id));
}
