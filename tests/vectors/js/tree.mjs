// RFC 6962 with BLAKE3. Proofs are checked bottom up, as RFC 9162 (2.1.3.2, 2.1.4.2) describes it.

import { blake3 } from "./blake3.mjs";
import { canonical } from "./json.mjs";

export const leafHash = (values) => blake3(Buffer.concat([Buffer.of(0), canonical(values)]));
const nodeHash = (left, right) => blake3(Buffer.concat([Buffer.of(1), left, right]));

// Folds from the bottom: pairs first, an odd node rises unchanged. This gives the same tree as
// splitting at the largest power of two from the top.
export function rootOf(leaves) {
  if (leaves.length === 0) return blake3(Buffer.alloc(0));
  let level = leaves;
  while (level.length > 1) {
    const next = [];
    for (let i = 0; i < level.length; i += 2) {
      next.push(i + 1 < level.length ? nodeHash(level[i], level[i + 1]) : level[i]);
    }
    level = next;
  }
  return level[0];
}

const halve = (number) => Math.floor(number / 2);
const isOdd = (number) => number % 2 === 1;

// Drops levels until `node` is a right child (or 0): there it was the last of its level alone.
function climb(node, last) {
  let [n, l] = [node, last];
  while (n !== 0 && !isOdd(n)) [n, l] = [halve(n), halve(l)];
  return [n, l];
}

export function auditHolds(leaf, index, size, path, root) {
  if (!(index >= 0 && index < size)) return false;
  let [node, last, hash] = [index, size - 1, leaf];
  for (const sibling of path) {
    if (last === 0) return false;
    if (isOdd(node) || node === last) {
      hash = nodeHash(sibling, hash);
      if (!isOdd(node)) [node, last] = climb(node, last);
    } else {
      hash = nodeHash(hash, sibling);
    }
    [node, last] = [halve(node), halve(last)];
  }
  return last === 0 && hash.equals(root);
}

const isPowerOfTwo = (number) => Number.isInteger(Math.log2(number));

export function consistencyHolds(oldSize, newSize, oldRoot, newRoot, proof) {
  if (!(oldSize >= 1 && oldSize <= newSize)) return false;
  if (oldSize === newSize) return proof.length === 0 && oldRoot.equals(newRoot);
  // A complete old tree is itself the first node, so the proof need not repeat its root.
  const steps = isPowerOfTwo(oldSize) ? [oldRoot, ...proof] : [...proof];
  if (proof.length === 0) return false;
  let [node, last] = [oldSize - 1, newSize - 1];
  while (isOdd(node)) [node, last] = [halve(node), halve(last)];
  let [oldHash, newHash] = [steps[0], steps[0]];
  for (const step of steps.slice(1)) {
    if (last === 0) return false;
    if (isOdd(node) || node === last) {
      oldHash = nodeHash(step, oldHash);
      newHash = nodeHash(step, newHash);
      if (!isOdd(node)) [node, last] = climb(node, last);
    } else {
      newHash = nodeHash(newHash, step);
    }
    [node, last] = [halve(node), halve(last)];
  }
  return last === 0 && oldHash.equals(oldRoot) && newHash.equals(newRoot);
}
