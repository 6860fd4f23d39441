// Configuration of the server and its store, read-only, with the commands that change it.

import { bankName, onVisible } from "./banks.js";
import { bytes, chip, clipped, count, el, facts, link, mono, more, notes, number, soft, table, to } from "./elements.js";
import { load, sentence } from "./feedback.js";
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
const origin = (item) => ({ default: "default", file: "configuration file", flag: "command line" })[item.origin] ?? mono(item.origin);

// The commands, or the lines of the configuration file, that change a part.
const changes = (...rows) => el("dl", { class: "changes small" }, rows.map(([what, command]) =>
  [el("dt", {}, what), el("dd", {}, command instanceof Node ? command : el("code", {}, command))]));

const part = (name, ...what) => el("section", { class: "part", "aria-label": name }, el("h2", {}, name), what);

export async function settings() {
  const [result, { banks }] = await Promise.all([get(path("settings")), get(path("banks"))]);
  const value = (name) => result.values.find((item) => item.name === name)?.value;
  return [
    el("h1", {}, "Settings"),
    soft("What this server was started with. This page changes nothing: use the commands, or edit the configuration file and restart ", el("code", {}, "satchel serve"), "."),
    part("Server",
      facts({
        version: result.versions.satchel, "artifact format": result.versions["artifact format"], Python: result.versions.python,
        "configuration file": [mono(result.file), result.file_exists ? null : el("span", { class: "soft" }, " (does not exist yet)")],
      }),
      notes(result.notes),
      changes(["Show every setting and its origin", "satchel config show"], ["Check the installation", "satchel doctor"])),
    store(result.store, banks),
    embedder(result.embedder, banks),
    backups(value),
    access(result.access, banks),
    limits(result),
    more("All settings", table(["setting", "value", "from", "variable"], result.values.map((item) =>
      [mono(item.name), words(item.value), origin(item), item.variable ? mono(item.variable) : ""]))),
  ];
}

function store(item, banks) {
  const usual = banks.find((bank) => bank.default);
  return part("Store",
    facts({
      type: STORES[item.kind] ?? item.kind, address: mono(item.address), "chosen by": item.chosen_by,
      encryption: [item.is_encrypted ? chip("encrypted", "good") : chip("not encrypted", item.kind === "sqlite" ? "warn" : ""),
        item.requires_encryption ? " required by the configuration" : ""],
      banks: number(banks.length), "default bank": usual ? link(to("b", usual.id), clipped(bankName(usual), 60)) : "none",
    }),
    changes(
      ...(item.kind === "sqlite" ? [item.is_encrypted ? ["Decrypt (stop the server first)", "satchel store decrypt"]
        : ["Encrypt (stop the server first)", "satchel store encrypt --encrypt-to NAME"]] : []),
      ["Move to another store", "satchel migrate FROM TO"], ["Change the default bank", "satchel bank use NAME"]));
}

// A table with a row for each bank, whose last cells load when visible.
function ofBanks(heads, banks, cells) {
  const shown = table(["bank", ...heads], banks.map((bank) => [link(to("b", bank.id), clipped(bankName(bank), 60)), ...heads.map(() => "\u2026")]));
  for (const [at, line] of shown.querySelectorAll("tbody tr").entries()) {
    const bank = banks[at], places = [...line.querySelectorAll("td > div")].slice(1);
    onVisible(line, async () => {
      if (!line.isConnected) return;
      const result = bank.problem ? [el("span", { class: "bad" }, bank.problem)]
        : await cells(bank).catch((error) => [el("span", { class: "bad" }, error.message)]);
      for (const [number, container] of places.entries()) container.replaceChildren(result[number] ?? "");
    });
  }
  return banks.length ? shown : null;
}

function embedder(item, banks) {
  return part("Embedder",
    facts({
      model: mono(item.name), state: [chip(item.state, STATES[item.state]), item.state === "configured" ? " the server is asked when it is needed" : ""],
      problem: item.problem ? el("span", { class: "bad" }, sentence(item.problem, item.hint)) : null,
      "runs on": item.server ? mono(item.server) : "this machine", "automatic vectors": words(item.is_automatic), reranker: item.reranker ? mono(item.reranker) : "none",
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
  return rules.map(([name, phrase]) => [value(`backup.${name}`), phrase]).filter(([much]) => much).map(([much, phrase]) => phrase(much)).join(", ") || "all";
}

function backups(value) {
  const fresh = el("div"), setup = el("div");
  load(fresh, async () => {
    const { checks } = await get(path("backups", "freshness"));
    return checks.map((item) => el("p", {}, chip(item.state === "ok" ? "fresh" : item.state, CHECKS[item.state] ?? "warn"), ` ${item.name}: ${item.detail}`));
  });
  load(setup, async () => {
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

function access(item, banks) {
  return part("Access",
    facts({
      "signed in as": item.operator_token ? "operator, by the operator's token" : "operator, from this machine (no token is set)",
      "operator's token": item.operator_token ? chip("required", "good") : chip("not set"),
      "signing key": item.signing_key, "signatures required": number(item.threshold), "key of this server": mono(item.verifier),
    }),
    ofBanks(["active tokens", ""], banks, async (bank) => {
      const { tokens } = await get(path("banks", bank.id, "tokens"));
      return [number(tokens.length), link(to("b", bank.id, "tokens"), "View tokens")];
    }),
    changes(["Require an operator's token", "satchel serve --admin-token-file FILE"], ["Issue a token", "satchel token issue --help"],
      ["Revoke a token", "satchel token revoke TOKEN"], ["List and trust keys", "satchel key list"]));
}

const pairs = (rows) => el("dl", { class: "pairs limits" }, rows.map(([name, ...value]) => [el("dt", {}, name), el("dd", {}, value)]));

function limits(result) {
  const records = result.values.filter((item) => item.name.startsWith("limits."));
  return part("Limits",
    el("h3", {}, "Records and files"),
    pairs(records.map((item) => {
      const name = item.name.slice("limits.".length);
      return [RECORDS[name] ?? name.replaceAll("_", " "), sized(item.name, item.value), item.origin === "default" ? "" : [" (", origin(item), ")"]];
    })),
    el("h3", {}, "Requests"),
    pairs(Object.entries(result.requests).map(([name, value]) =>
      [REQUESTS[name] ?? name.replaceAll("_", " "), name === "per_second" && !value ? "no limit" : sized(name, value)])),
    changes(["Requests", "satchel serve --concurrency N --per-second N"], ["Records and files, in the configuration file under [limits]", "entry_bytes = 2000000"]));
}
