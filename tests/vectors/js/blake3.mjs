// BLAKE3, unkeyed, 32 bytes out. Written for clarity: one chunk at a time, no SIMD.

const IV = Uint32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
);
// Where each message word comes from in the next round.
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
// Columns, then diagonals of the 4x4 state.
const QUARTERS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];
const ROUNDS = 7;
const BLOCK = 64;
const CHUNK = 1024;
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;

const rotate = (word, bits) => (word >>> bits) | (word << (32 - bits));

function quarter(state, [a, b, c, d], x, y) {
  state[a] = state[a] + state[b] + x;
  state[d] = rotate(state[d] ^ state[a], 16);
  state[c] = state[c] + state[d];
  state[b] = rotate(state[b] ^ state[c], 12);
  state[a] = state[a] + state[b] + y;
  state[d] = rotate(state[d] ^ state[a], 8);
  state[c] = state[c] + state[d];
  state[b] = rotate(state[b] ^ state[c], 7);
}

// Returns the new chaining value: 8 words.
function compress(chaining, words, counter, length, flags) {
  const state = new Uint32Array(16);
  state.set(chaining, 0);
  state.set(IV.subarray(0, 4), 8);
  state.set([counter % 2 ** 32, Math.floor(counter / 2 ** 32), length, flags], 12);
  let message = words;
  for (let round = 0; round < ROUNDS; round += 1) {
    QUARTERS.forEach((lanes, i) => quarter(state, lanes, message[2 * i], message[2 * i + 1]));
    message = PERMUTATION.map((from) => message[from]);
  }
  return state.slice(0, 8).map((word, i) => word ^ state[i + 8]);
}

function blockWords(bytes) {
  const padded = new Uint8Array(BLOCK);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  return Array.from({ length: 16 }, (_, i) => view.getUint32(4 * i, true));
}

// A node is kept one step short of its value, because only the last one gets the ROOT flag.
const finish = (node, flag = 0) =>
  compress(node.chaining, node.words, node.counter, node.length, node.flags | flag);

function chunkNode(bytes, counter) {
  let chaining = IV;
  let flags = CHUNK_START;
  let offset = 0;
  for (; bytes.length - offset > BLOCK; offset += BLOCK) {
    const words = blockWords(bytes.subarray(offset, offset + BLOCK));
    chaining = compress(chaining, words, counter, BLOCK, flags);
    flags = 0;
  }
  const rest = bytes.subarray(offset);
  const words = blockWords(rest);
  return { chaining, words, counter, length: rest.length, flags: flags | CHUNK_END };
}

function parentNode(left, right) {
  const words = [...finish(left), ...finish(right)];
  return { chaining: IV, words, counter: 0, length: BLOCK, flags: PARENT };
}

// The left side is the largest power of two of chunks that leaves something to the right.
function treeNode(bytes, firstChunk) {
  if (bytes.length <= CHUNK) return chunkNode(bytes, firstChunk);
  let chunks = 1;
  while (2 * chunks * CHUNK < bytes.length) chunks *= 2;
  const cut = chunks * CHUNK;
  return parentNode(
    treeNode(bytes.subarray(0, cut), firstChunk),
    treeNode(bytes.subarray(cut), firstChunk + chunks),
  );
}

export function blake3(bytes) {
  const words = finish(treeNode(bytes, 0), ROOT);
  const out = Buffer.alloc(32);
  words.forEach((word, i) => out.writeUInt32LE(word, 4 * i));
  return out;
}

export const hashText = (bytes) => `blake3:${blake3(bytes).toString("hex")}`;
