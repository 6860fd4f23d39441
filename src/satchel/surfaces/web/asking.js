// Asks the server, on behalf of whoever looks at the page. Nothing else is ever asked.

const KEPT = "satchel operator";

export class Refused extends Error {
  constructor(status, said) {
    super(said.title || `the server answered ${status}`);
    this.status = status;
    this.code = said.code;
    this.hint = said.hint;
  }
}

export const signIn = (token) => {
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
};

async function asked(path, options = {}) {
  const headers = new Headers(options.headers);
  const token = sessionStorage.getItem(KEPT);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "omit", redirect: "error" });
  } catch {
    throw new Refused(0, { title: "The server does not answer.", hint: "Is it still running?" });
  }
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, said);
  }
  return answer;
}

const address = (path, query) => {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") said.append(name, value);
  }
  return said.size ? `${path}?${said}` : path;
};

export const path = (...parts) => "/v1/" + parts.map(encodeURIComponent).join("/");

export const get = async (where, query) => (await asked(address(where, query))).json();

export const post = async (where, body) =>
  (await asked(where, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  })).json();

export const send = async (where, query, file) =>
  (await asked(address(where, query), { method: "POST", body: file })).json();

// Follows a job to its end, and returns its result.
export async function followed(job, tell, off) {
  const where = path("jobs", job.id);
  off?.(() => asked(where, { method: "DELETE" }));
  for (let wait = 60; ; wait = Math.min(1000, wait * 1.5)) {
    const now = await get(where);
    tell(now);
    if (now.state === "done") return now.result;
    if (now.state === "failed") {
      throw new Refused(500, { ...now.problem, title: now.problem?.message });
    }
    if (now.state === "cancelled") throw new Refused(0, { title: "This was called off." });
    await new Promise((go) => setTimeout(go, wait));
  }
}
