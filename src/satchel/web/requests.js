// Requests to the server of this page, and to no other.

const KEPT = "satchel operator";
const TRIES = 4;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.title || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code;
    this.field = problem.field;
    this.hint = problem.hint;
  }
}

export const signIn = (token) => {
  if (token && !isToken(token)) throw new Refused(0, { title: "A token cannot contain these characters.", hint: "Copy it again from where it was set." });
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
};

// Prompts for the operator's token, when the server requires one; set by the page. It prompts once for
// all waiting requests, which then continue, so that no input is lost.
export const gate = { ask: null, open: null };

async function signedIn(used) {
  if (sessionStorage.getItem(KEPT) !== used) return true;
  gate.open ??= gate.ask(used !== null).finally(() => { gate.open = null; });
  return gate.open;
}

const pause = (seconds) => new Promise((go) => setTimeout(go, seconds * 1000));

// A token can have only the characters of a header value.
const isToken = (token) => {
  try {
    return new Headers({ Authorization: `Bearer ${token}` }).has("Authorization");
  } catch {
    return false;
  }
};

async function confirmChange(where, options = {}, tries = 1) {
  const headers = new Headers(options.headers);
  const token = sessionStorage.getItem(KEPT);
  if (token && isToken(token)) headers.set("Authorization", `Bearer ${token}`);
  let answer;
  try {
    answer = await fetch(where, { ...options, headers, credentials: "omit", redirect: "error" });
  } catch {
    throw new Refused(0, { title: "The server does not answer.", hint: "Check that it is running, then try again." });
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 403 && problem.code === "permission.refused" && await signedIn(token)) {
    return confirmChange(where, options, tries);
  }
  // Too many requests, or a busy server: requests that change nothing are repeated after Retry-After.
  if ((answer.status === 429 || (answer.status === 503 && !options.method)) && tries < TRIES) {
    await pause(Math.min(10, Number(answer.headers.get("Retry-After")) || 1) * tries);
    return confirmChange(where, options, tries + 1);
  }
  throw new Refused(answer.status, problem);
}

const address = (path, query) => {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const item of [value].flat()) {
      if (item !== undefined && item !== null && item !== "") params.append(name, item);
    }
  }
  return params.size ? `${path}?${params}` : path;
};

// One segment of a path. Browsers resolve "." and "..", even if escaped, and servers decode an escaped
// slash: such a name would address another resource.
const step = (part) => {
  const text = String(part ?? "");
  if (/^\.{0,2}$|[/\\\0]|[\ud800-\udfff]/u.test(text)) {
    throw new Refused(404, { title: "This name does not exist.", code: "http.404" });
  }
  return encodeURIComponent(text);
};

export const path = (...parts) => "/v1/" + parts.map(step).join("/");

// A path of a memory file, with its slashes.
export const filePath = (key, what, file) => `${path("files", key, what)}/${file.split("/").map(step).join("/")}`;

export const get = async (where, query) => (await confirmChange(address(where, query))).json();

const request = async (method, where, body, headers) =>
  (await confirmChange(where, {
    method, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body ?? {}),
  })).json();

export const post = (where, body) => request("POST", where, body);
export const patch = (where, body, headers) => request("PATCH", where, body, headers);
export const put = (where, body, headers) => request("PUT", where, body, headers);

export const remove = async (where, query, headers) => {
  const answer = await confirmChange(address(where, query), { method: "DELETE", headers });
  return answer.status === 204 ? null : answer.json();
};

export const send = async (where, query, file) =>
  (await confirmChange(address(where, query), { method: "POST", body: file })).json();

// The response, for its headers or bytes.
export const fetched = (where, query) => confirmChange(address(where, query));
