// Checks every test vector with an implementation that shares no code with any other.
//
//   node check.mjs [folder of the vectors]
//
// Prints a line for each file; the first mismatch ends it with status 1.

import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { blake3 } from "./js/blake3.mjs";
import * as cbor from "./js/cbor.mjs";
import * as ed25519 from "./js/ed25519.mjs";
import * as json from "./js/json.mjs";
import { hasRecordShape, hashedBytes, idHolds, recordId } from "./js/record.mjs";
import { Refused } from "./js/refused.mjs";
import { auditHolds, consistencyHolds, leafHash, rootOf } from "./js/tree.mjs";
import { verify } from "./js/verify.mjs";

const folder = resolve(process.argv[2] ?? dirname(fileURLToPath(import.meta.url)));
const hex = (text) => Buffer.from(text, "hex");
const utf8 = (text) => Buffer.from(text, "utf8");

class Mismatch extends Error {}

function same(actual, expected, what) {
  if (actual !== expected) throw new Mismatch(`${what}: ${actual} in place of ${expected}`);
}

function isRefused(action) {
  try {
    action();
    return false;
  } catch (error) {
    if (error instanceof Refused) return true;
    throw error;
  }
}

// ---- one function for each kind of case; each throws Mismatch or returns

function checkHash(test) {
  const bytes = Uint8Array.from({ length: test.length }, (_, i) => i % 251);
  same(blake3(bytes).toString("hex"), test.hash, "hash");
}

function checkCanonical(test) {
  const value = json.parse(utf8(test.input));
  same(json.canonicalText(value), test.canonical, "canonical text");
  same(cbor.encode(value).toString("hex"), test.cbor, "CBOR");
  const back = cbor.decode(hex(test.cbor));
  same(json.canonicalText(back), test.canonical, "text read back from CBOR");
  same(json.canonicalText(json.parse(utf8(test.canonical))), test.canonical, "text read again");
}

const mustRefuse = (action) => same(isRefused(action), true, "refused");
const checkRefusedJson = (test) => mustRefuse(() => json.parse(hex(test.input_hex)));
const checkRefusedCbor = (test) => mustRefuse(() => cbor.decode(hex(test.input_hex)));

function checkRecord(test) {
  const record = json.parse(utf8(test.input));
  same(hashedBytes(record).toString(), test.hashed, "hashed bytes");
  same(json.canonicalText(record), test.canonical, "canonical text");
  same(recordId(record), test.id, "id");
  same(hasRecordShape(record) && idHolds(record), true, "the record's own id");
}

function checkWrongRecord(test) {
  const record = json.parse(utf8(test.input));
  same(hasRecordShape(record) && idHolds(record), false, "a wrong id holds");
}

function checkKey(test) {
  const publicKey = ed25519.publicKeyOfSeed(hex(test.seed));
  same(publicKey.toString("hex"), test.public, "public key");
  same(ed25519.didKey(publicKey), test.did, "did:key");
  same(ed25519.readKey(test.did).toString("hex"), test.public, "public key read from did:key");
}

const checkBadKey = (test) => mustRefuse(() => ed25519.readKey(test.did));

const signatureHolds = (test, type) =>
  ed25519.verifySigned(type, utf8(test.payload), test.key, test.sig);

function checkSignature(test) {
  same(ed25519.pae(test.type, utf8(test.payload)).toString("hex"), test.pae_hex, "PAE");
  same(signatureHolds(test, test.type), true, "the signature holds");
  same(signatureHolds(test, "application/vnd.satchel.other.v1+json"), false, "under another type");
}

function checkBadSignature(test) {
  let holds = false;
  const refused = isRefused(() => {
    holds = signatureHolds(test, test.type);
  });
  same(!refused && holds, false, "the signature holds");
}

// ---- one function for each file; each yields [name, action]

function* cases(list, action) {
  for (const test of list) yield [test.name, () => action(test)];
}

function* hashFile(vectors) {
  yield* cases(vectors.cases, checkHash);
}

function* canonicalFile(vectors) {
  yield* cases(vectors.cases, checkCanonical);
}

function* refusedFile(vectors) {
  yield* cases(vectors.json, checkRefusedJson);
  yield* cases(vectors.cbor, checkRefusedCbor);
}

function* recordFile(vectors) {
  yield* cases(vectors.cases, checkRecord);
  yield* cases(vectors.wrong, checkWrongRecord);
}

function* signatureFile(vectors) {
  yield* cases(vectors.keys, checkKey);
  yield* cases(vectors.bad_keys, checkBadKey);
  yield* cases(vectors.signatures, checkSignature);
  yield* cases(vectors.bad_signatures, checkBadSignature);
}

function* treeFile(vectors) {
  // Read again with our own parser, since a leaf's input is hashed.
  const leafOf = (leaf) => leafHash(json.parse(utf8(JSON.stringify(leaf.input))));
  const leaves = vectors.leaves.map((leaf) => hex(leaf.hash));
  const root = (size) => rootOf(leaves.slice(0, size));
  const audit = ({ index, size, path }, leaf, against) =>
    auditHolds(leaf, index, size, path.map(hex), against);
  const consistency = (test, oldRoot, newRoot) =>
    consistencyHolds(test.old, test.new, oldRoot, newRoot, test.proof.map(hex));

  for (const [i, leaf] of vectors.leaves.entries()) {
    yield [`leaf ${i}`, () => same(leafOf(leaf).toString("hex"), leaf.hash, "hash")];
  }
  for (const { size, root: expected } of vectors.roots) {
    yield [`root of ${size}`, () => same(`blake3:${root(size).toString("hex")}`, expected, "root")];
  }
  for (const test of vectors.audit) {
    const holds = () => audit(test, leaves[test.index], root(test.size));
    yield [`leaf ${test.index} in ${test.size}`, () => same(holds(), true, "the path holds")];
  }
  for (const test of vectors.consistency) {
    const holds = () => consistency(test, root(test.old), root(test.new));
    yield [`${test.old} in ${test.new}`, () => same(holds(), true, "the proof holds")];
  }
  yield* cases(vectors.wrong_audit, (test) =>
    same(audit(test, hex(test.leaf), hex(test.root)), false, "the path holds"),
  );
  yield* cases(vectors.wrong_consistency, (test) =>
    same(consistency(test, hex(test.old_root), hex(test.new_root)), false, "the proof holds"),
  );
}

function* artifactFile(vectors) {
  const bytesOf = new Map(
    vectors.files.map((name) => [name, readFileSync(join(folder, "artifacts", name))]),
  );
  const judge = (bytes, test) => {
    const { outcome, why } = verify(bytes, vectors.trusted);
    if (!test.expect.includes(outcome)) {
      throw new Mismatch(`${outcome} (${why}) in place of ${test.expect.join(" or ")}`);
    }
  };
  for (const name of vectors.files) {
    yield [name, () => checkArtifact(bytesOf.get(name), vectors)];
    const untrusted = () => verify(bytesOf.get(name), []).outcome;
    yield [`${name} with no key trusted`, () => same(untrusted(), "untrusted", "outcome")];
  }
  for (const test of vectors.variants) {
    const edited = splice(bytesOf.get(test.base), test);
    yield [`${test.base}, ${test.name}`, () => judge(edited, test)];
  }
  yield* cases(vectors.whole, (test) => judge(utf8(test.text), test));
}

const splice = (bytes, { offset, remove, replace_hex: replacement }) =>
  Buffer.concat([bytes.subarray(0, offset), hex(replacement), bytes.subarray(offset + remove)]);

function checkArtifact(bytes, expected) {
  const found = verify(bytes, expected.trusted);
  same(found.outcome, "good", `outcome (${found.why})`);
  same(found.bodyHash, expected.body_hash, "body_hash");
  same(found.rootHash, expected.root_hash, "root_hash");
  same(JSON.stringify(Object.fromEntries(found.counts)), JSON.stringify(expected.counts), "counts");
  same(found.signers.join(), expected.signer, "signer");
  const ids = [...found.sections.values()].flat().filter((record) => record.has("id"));
  same(ids.map((record) => record.get("id")).join(), expected.ids.join(), "ids in body order");
}

// ---- all of it

const FILES = [
  ["blake3.json", hashFile],
  ["canonical.json", canonicalFile],
  ["refused.json", refusedFile],
  ["records.json", recordFile],
  ["tree.json", treeFile],
  ["signatures.json", signatureFile],
  ["artifacts/artifacts.json", artifactFile],
];

function main() {
  for (const [file, casesOf] of FILES) {
    let checked = 0;
    for (const [name, action] of casesOf(JSON.parse(readFileSync(join(folder, file), "utf8")))) {
      try {
        action();
      } catch (error) {
        console.log(`${file}: ${name}: ${error instanceof Mismatch ? error.message : error.stack}`);
        return 1;
      }
      checked += 1;
    }
    console.log(`${file}: ${checked} checked`);
  }
  console.log("all vectors hold");
  return 0;
}

process.exitCode = main();
