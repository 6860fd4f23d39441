// Configuration of the server and its store, read-only, with the commands that change it.

import { named, whenSeen } from "./banks.js";
import { bytes, chip, clipped, count, el, facts, link, mono, more, notes, number, soft, table, to } from "./elements.js";
import { into, sentence } from "./feedback.js";
import { get, path } from "./requests.js";

const STORES = { sqlite: "SQLite file", "graph-db": "LadybugDB graph", postgres: "PostgreSQL database" };
const STATES = { ready: "good", configured: "", "not available": "bad" };
const CHECKS = { ok: "good", problem: "bad" };
const RECORDS = {
  entry_bytes: "One record", line_bytes: "One line, or one value in a document", document_bytes: "Whole .pam or .pam.cbor file",
  statement_bytes: "Statement of a file", signatures: "Signatures of a file", tokens: "Tokens of a file", parents: "Parents of a memory",
  tags: "Tags of a memory", metadata_keys: "Metadata keys of a record", expansion: "Decompressed size as a multiple of the compressed one",
  expansion_free_bytes: "Decompressed size below which that is not checked", records: "Records in a file",
};
const REQUESTS = {
  small_bytes: "Body of a request", body_bytes: "Body with memories, files or conversations", upload_bytes: "Uploaded file",
  holder_bytes: "Body from the holder of a token", buffered_bytes: "All bodies in memory", at_once: "Concurrent requests",
  judged: "Tokens waiting to be verified", unknown: "Connections without credentials", head_bytes: "Headers of a request",
  headers: "Number of headers", waiting: "Waiting requests", patience: "Seconds that a request waits",
  per_second: "Requests per second of one address", body_seconds: "Seconds between two parts of a body",
  body_rate: "Bytes of a body per second, at least", head_seconds: "Seconds until the next headers", take_seconds: "Seconds until an answer is read",
};

const words = (value) => (value === true ? "yes" : value === false ? "no" : value === null || value === "" ? "not set"
  : Array.isArray(value) ? value.join(", ") || "none" : typeof value === "number" ? number(value) : String(value));
const sized = (name, value) => (name.endsWith("_bytes") ? bytes(value) : words(value));
const origin = (one) => ({ default: "default", file: "configuration file", flag: "command line" })[one.origin] ?? mono(one.origin);

// The commands, or the lines of the configuration file, that change a part.
const changes = (...rows) => el("dl", { class: "changes small" }, rows.map(([what, command]) =>
  [el("dt", {}, what), el("dd", {}, command instanceof Node ? command : el("code", {}, command))]));

const part = (name, ...what) => el("section", { class: "part", "aria-label": name }, el("h2", {}, name), what);

export async function settings() {
  const [found, { banks }] = await Promise.all([get(path("settings")), get(path("banks"))]);
  const value = (name) => found.values.find((one) => one.name === name)?.value;
  return [
    el("h1", {}, "Settings"),
    soft("What this server was started with. This page changes nothing: use the commands, or edit the configuration file and restart ", el("code", {}, "satchel serve"), "."),
    part("Server",
      facts({
        version: found.versions.satchel, "artifact format": found.versions["artifact format"], Python: found.versions.python,
        "configuration file": [mono(found.file), found.file_exists ? null : el("span", { class: "soft" }, " (does not exist yet)")],
      }),
      notes(found.notes),
      changes(["Show every setting and its origin", "satchel config show"], ["Check the installation", "satchel doctor"])),
    store(found.store, banks),
    embedder(found.embedder, banks),
    backups(value),
    access(found.access, banks),
    limits(found),
    more("All settings", table(["setting", "value", "from", "variable"], found.values.map((one) =>
      [mono(one.name), words(one.value), origin(one), one.variable ? mono(one.variable) : ""]))),
  ];
}

function store(one, banks) {
  const usual = banks.find((bank) => bank.default);
  return part("Store",
    facts({
      type: STORES[one.kind] ?? one.kind, address: mono(one.address), "chosen by": one.chosen_by,
      encryption: [one.is_encrypted ? chip("encrypted", "good") : chip("not encrypted", one.kind === "sqlite" ? "warn" : ""),
        one.requires_encryption ? " required by the configuration" : ""],
      banks: number(banks.length), "default bank": usual ? link(to("b", usual.id), clipped(named(usual), 60)) : "none",
    }),
    changes(
      ...(one.kind === "sqlite" ? [one.is_encrypted ? ["Decrypt (stop the server first)", "satchel store decrypt"]
        : ["Encrypt (stop the server first)", "satchel store encrypt --encrypt-to NAME"]] : []),
      ["Move to another store", "satchel migrate FROM TO"], ["Change the default bank", "satchel bank use NAME"]));
}

// A table with a row for each bank, whose last cells load when visible.
function ofBanks(heads, banks, cells) {
  const shown = table(["bank", ...heads], banks.map((bank) => [link(to("b", bank.id), clipped(named(bank), 60)), ...heads.map(() => "\u2026")]));
  for (const [at, line] of shown.querySelectorAll("tbody tr").entries()) {
    const bank = banks[at], places = [...line.querySelectorAll("td > div")].slice(1);
    whenSeen(line, async () => {
      if (!line.isConnected) return;
      const found = bank.problem ? [el("span", { class: "bad" }, bank.problem)]
        : await cells(bank).catch((error) => [el("span", { class: "bad" }, error.message)]);
      for (const [number, place] of places.entries()) place.replaceChildren(found[number] ?? "");
    });
  }
  return banks.length ? shown : null;
}

function embedder(one, banks) {
  return part("Embedder",
    facts({
      model: mono(one.name), state: [chip(one.state, STATES[one.state]), one.state === "configured" ? " the server is asked when it is needed" : ""],
      problem: one.problem ? el("span", { class: "bad" }, sentence(one.problem, one.hint)) : null,
      "runs on": one.server ? mono(one.server) : "this machine", "automatic vectors": words(one.is_automatic), reranker: one.reranker ? mono(one.reranker) : "none",
    }),
    ofBanks(["model", "vectors", "missing"], banks, async (bank) => {
      const { vectors } = await get(path("banks", bank.id));
      return vectors ? [mono(vectors.model), number(vectors.count), number(vectors.missing)] : ["no vectors yet", "0", ""];
    }),
    changes(["Choose another model, in the configuration file under [inference]", 'embedder = "minilm"'],
      ["Compute the vectors of a bank again", "satchel embed --bank NAME --rebuild"]));
}

function kept(value) {
  const rules = [["retention", (days) => count(days, "day")], ["keep_last", (much) => `the newest ${number(much)}`],
    ...["daily", "weekly", "monthly", "yearly"].map((each) => [`keep_${each}`, (much) => `${number(much)} ${each}`])];
  return rules.map(([name, said]) => [value(`backup.${name}`), said]).filter(([much]) => much).map(([much, said]) => said(much)).join(", ") || "all";
}

function backups(value) {
  const fresh = el("div"), setup = el("div");
  into(fresh, async () => {
    const { checks } = await get(path("backups", "freshness"));
    return checks.map((one) => el("p", {}, chip(one.state === "ok" ? "fresh" : one.state, CHECKS[one.state] ?? "warn"), ` ${one.name}: ${one.detail}`));
  });
  into(setup, async () => {
    const now = await get(path("backups", "setup"));
    return facts({
      destinations: now.destinations.join(", ") || "none", schedule: now.enabled ? mono(now.schedule) : "off", problem: now.problem,
      retention: kept(value), "encrypted to": words(value("backup.encrypt_to") ?? []), compression: words(value("backup.compress")),
      "memory files": value("backup.files") ? "included" : "not included", "reported as late after": count(value("backup.stale_after"), "hour"),
    });
  });
  return part("Backups", setup, fresh,
    changes(["Show the lines for the configuration file", "satchel backup setup DESTINATION"], ["Run backups on the schedule", "satchel backup schedule"],
      ["Apply the retention rules", "satchel backup prune --dry-run"], ["Run and verify backups here", link("#/backups", "Backups")]));
}

function access(one, banks) {
  return part("Access",
    facts({
      "signed in as": one.operator_token ? "operator, by the operator's token" : "operator, from this machine (no token is set)",
      "operator's token": one.operator_token ? chip("required", "good") : chip("not set"),
      "signing key": one.signing_key, "signatures required": number(one.threshold), "key of this server": mono(one.verifier),
    }),
    ofBanks(["active tokens", ""], banks, async (bank) => {
      const { tokens } = await get(path("banks", bank.id, "tokens"));
      return [number(tokens.length), link(to("b", bank.id, "tokens"), "View tokens")];
    }),
    changes(["Require an operator's token", "satchel serve --admin-token-file FILE"], ["Issue a token", "satchel token issue --help"],
      ["Revoke a token", "satchel token revoke TOKEN"], ["List and trust keys", "satchel key list"]));
}

const pairs = (rows) => el("dl", { class: "pairs limits" }, rows.map(([name, ...value]) => [el("dt", {}, name), el("dd", {}, value)]));

function limits(found) {
  const records = found.values.filter((one) => one.name.startsWith("limits."));
  return part("Limits",
    el("h3", {}, "Records and files"),
    pairs(records.map((one) => {
      const name = one.name.slice("limits.".length);
      return [RECORDS[name] ?? name.replaceAll("_", " "), sized(one.name, one.value), one.origin === "default" ? "" : [" (", origin(one), ")"]];
    })),
    el("h3", {}, "Requests"),
    pairs(Object.entries(found.requests).map(([name, value]) =>
      [REQUESTS[name] ?? name.replaceAll("_", " "), name === "per_second" && !value ? "no limit" : sized(name, value)])),
    changes(["Requests", "satchel serve --concurrency N --per-second N"], ["Records and files, in the configuration file under [limits]", "entry_bytes = 2000000"]));
}
