// Step 8, and the redacted forms of step 6: the head, whose it is, proofs, redactions, tombstones.
// Keys: owners of the bank record, writers that one owner admitted, keys that one owner ended.

import { hashText } from "./blake3.mjs";
import { COMPONENTS } from "./container.mjs";
import * as ed25519 from "./ed25519.mjs";
import { canonical } from "./json.mjs";
import { auditHolds, leafHash } from "./tree.mjs";

const all = (sections, name) => sections.get(name) ?? [];
const raw = (hash) => Buffer.from(hash.slice("blake3:".length), "hex");

// Returns what is untrue (a text), and what is lacking (a text), of a file with or without a head.
export function judgeLog(statement, sections) {
  const untrue = whole(sections) ?? repeated(sections);
  if (untrue) return { untrue };
  const envelope = statement.get("head");
  if (envelope === undefined) return withoutHead(sections);
  const head = envelope.get("signed");
  const bank = statement.get("bank");
  if (!headHolds(envelope, head) || head.get("bank") !== bank) return { untrue: "the head" };
  const places = new Map();
  for (const name of ["proofs", "withheld"]) {
    for (const item of all(sections, name)) {
      if (!pathHolds(item, head, bank)) return { untrue: "a proof" };
      if (name === "proofs") places.set(item.get("id"), item);
    }
  }
  const wrong = unmatched(statement, sections, places);
  if (wrong) return { untrue: wrong };
  const keys = keysOf(bank, sections, places);
  if (keys.owners.size > 0 && !keys.admitted.has(head.get("key"))) return { untrue: "no key of the bank" };
  const lacking = keys.owners.size === 0 ? "no bank record" : null;
  return forms(sections, places, keys, lacking);
}

const isForm = (entry) => !entry.has("nonce");
const entriesOf = (sections) => COMPONENTS.flatMap((name) => all(sections, name));

function withoutHead(sections) {
  if (all(sections, "proofs").length + all(sections, "withheld").length > 0) return { untrue: "a proof without a head" };
  return forms(sections, new Map(), { ended: new Map() }, null);
}

function whole(sections) {
  const named = new Set(all(sections, "redactions").map((one) => one.get("entry")));
  const found = entriesOf(sections).some((entry) => !isForm(entry) && named.has(entry.get("id")));
  return found ? "a whole entry beside its redaction" : null;
}

function repeated(sections) {
  const ids = all(sections, "proofs").map((item) => item.get("id"));
  if (new Set(ids).size !== ids.length) return "a proof twice";
  const entries = new Set(entriesOf(sections).map((entry) => entry.get("id")));
  return all(sections, "withheld").some((item) => entries.has(item.get("id"))) ? "an id twice" : null;
}

function headHolds(envelope, head) {
  const [signature] = envelope.get("signatures");
  if (signature.get("key") !== head.get("key")) return false;
  return signed("head", head, signature);
}

const signed = (type, value, signature) =>
  ed25519.verifySigned(ed25519.payloadType(type), canonical(value), signature.get("key"), signature.get("sig"));

function pathHolds(item, head, bank) {
  const leaf = leafHash([bank, ...["seq", "type", "id", "at"].map((name) => item.get(name))]);
  const path = item.get("path").map((part) => Buffer.from(part, "hex"));
  return auditHolds(leaf, item.get("seq"), head.get("size"), path, raw(head.get("root")));
}

function unmatched(statement, sections, places) {
  const types = new Map();
  for (const [name, records] of sections) {
    if (name === "proofs" || name === "withheld") continue;
    for (const record of records) types.set(record.get("id"), record.get("type"));
  }
  for (const [id, item] of places) if (types.get(id) !== item.get("type")) return "a proof of another type";
  if (statement.get("scope").get("kind") !== "disclosure") return null;
  return entriesOf(sections).every((entry) => places.has(entry.get("id"))) ? null : "a disclosed entry without a proof";
}

const unsignedPart = (record) => {
  const rest = new Map(record);
  rest.delete("id");
  rest.delete("signatures");
  return rest;
};

const signersOf = (type, record) =>
  (record.get("signatures") ?? [])
    .filter((signature) => signed(type, unsignedPart(record), signature))
    .map((signature) => signature.get("key"));

function keysOf(bank, sections, places) {
  const founding = all(sections, "keys").find((record) => record.get("id") === bank);
  const owners = new Set(founding ? founding.get("owner_keys") : []);
  const [admitted, ended] = [new Set(owners), new Map()];
  for (const record of all(sections, "config")) {
    const payload = record.get("payload") ?? new Map();
    const key = payload.get("key");
    if (payload.get("bank") !== bank || !signersOf("config", record).some((by) => owners.has(by))) continue;
    if (record.get("action") === "writer_added" && !ended.has(key)) admitted.add(key);
    if (["key_retired", "key_revoked"].includes(record.get("action"))) {
      admitted.delete(key);
      ended.set(key, { place: places.get(record.get("id"))?.get("seq"), action: record.get("action") });
    }
  }
  return { owners, admitted, ended };
}

function forms(sections, places, keys, lacking) {
  let lacks = lacking;
  for (const form of entriesOf(sections).filter(isForm)) {
    const id = form.get("id");
    const said = all(sections, "redactions").filter((one) => one.get("entry") === id);
    const hash = hashText(canonical(form));
    if (!said.some((one) => one.get("result") === hash)) return { untrue: "a form that no redaction allows" };
    const logged = said.filter((one) => places.has(one.get("id")));
    for (const one of logged) if (!counts(one, places.get(one.get("id")).get("seq"), keys)) return { untrue: "a redaction" };
    const entry = places.get(id);
    if (entry && entry.get("type") !== form.get("type")) return { untrue: "a form of another type" };
    if (logged.length === 0 || !entry) {
      lacks ??= "no proof of a redaction";
      continue;
    }
    const last = logged.reduce((a, b) => (places.get(a.get("id")).get("seq") > places.get(b.get("id")).get("seq") ? a : b));
    if (last.get("result") !== hash) return { untrue: "not the last form" };
  }
  return { lacks };
}

function counts(redaction, seq, keys) {
  const signatures = redaction.get("signatures") ?? [];
  const signers = signersOf("redaction", redaction);
  if (signers.length !== signatures.length) return false;
  return signers.every((key) => {
    const end = keys.ended.get(key);
    if (!end) return true;
    if (end.place === undefined) return end.action !== "key_revoked";
    return end.place > seq;
  });
}

// Erasures that are proved to be logged.
export const tombstones = (sections) => {
  const proved = new Set(all(sections, "proofs").map((item) => item.get("id")));
  return all(sections, "erasures").filter((one) => proved.has(one.get("id"))).map((one) => one.get("entry"));
};

export const withheldEntries = (sections) =>
  all(sections, "withheld").filter((item) => COMPONENTS.includes(item.get("type"))).map((item) => item.get("id"));
