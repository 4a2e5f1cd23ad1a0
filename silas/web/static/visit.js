// @ts-check
// The page of a visitor: one conversation. The link's secret is in the fragment, which no server
// sees; it is taken out of the address at once. The connection's own secret stays in the history
// entry of this tab: it survives a reload, and no other page of this origin reads it.
const NAMES = { visitor: "You", silas: "Silas", owner: "A person" };

const lines = /** @type {HTMLOListElement} */ (document.getElementById("lines"));
const status = /** @type {HTMLElement} */ (document.getElementById("state"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("say"));
const field = /** @type {HTMLTextAreaElement} */ (document.getElementById("text"));
const button = /** @type {HTMLButtonElement} */ (document.getElementById("send"));
const title = /** @type {HTMLElement} */ (document.getElementById("name"));

let secret = "";
let ended = false;

/** One request; throws with a sentence, and ends the page if the link opens nothing any more. */
async function ask(method, path, bearer, body) {
  const answer = await fetch(path, {
    method,
    headers: {
      Authorization: `Bearer ${bearer}`,
      ...(body ? { "Content-Type": "application/json" } : {}),
    },
    body: body && JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
  });
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  if (answer.status === 401) end(found.detail);
  throw new Error(found.detail ?? "That did not work. Try it again.");
}

function end(reason) {
  ended = true;
  history.replaceState(null, "", location.pathname);
  field.disabled = true;
  button.disabled = true;
  status.textContent = reason ?? "This conversation has ended.";
}

function show({ who, text }) {
  const item = document.createElement("li");
  item.className = who;
  const name = document.createElement("span");
  name.className = "who";
  name.textContent = NAMES[who] ?? who;
  const said = document.createElement("p");
  said.textContent = text;
  item.append(name, said);
  lines.append(item);
  item.scrollIntoView({ block: "end" });
}

/** The connection of this tab: the one that it has, or a new one with the link's secret. */
async function enter() {
  const link = location.hash.slice(1);
  const kept = history.state?.visit;
  if (kept && !link) return kept;
  history.replaceState(null, "", location.pathname);
  if (!link) throw new Error("This page needs the whole link that you were given.");
  const opened = await ask("POST", "/visit/connections", link, {});
  const mine = { secret: opened.secret, name: opened.name, longest: opened.message_chars };
  history.replaceState({ visit: mine }, "", location.pathname);
  return mine;
}

async function listen(after) {
  let wait = 0;
  while (!ended) {
    try {
      const heard = await ask("GET", `/visit/messages/${after}`, secret);
      after = heard.after;
      heard.lines.forEach(show);
      if (heard.lines.length) status.textContent = "";
      wait = 0;
    } catch (error) {
      if (ended) return;
      wait = Math.min(wait + 1, 10);
      status.textContent = "The connection was lost. Trying again…";
      await new Promise((done) => setTimeout(done, wait * 1000));
    }
  }
}

async function say(event) {
  event.preventDefault();
  const text = field.value.trim();
  if (!text) return;
  button.disabled = true;
  try {
    await ask("POST", "/visit/messages", secret, { text, key: crypto.randomUUID() });
    show({ who: "visitor", text });
    field.value = "";
    status.textContent = "Waiting for an answer…";
  } catch (error) {
    if (!ended) status.textContent = error.message;
  } finally {
    button.disabled = ended;
    field.focus();
  }
}

field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});
form.addEventListener("submit", say);

try {
  const mine = await enter();
  secret = mine.secret;
  title.textContent = mine.name;
  document.title = mine.name;
  field.maxLength = mine.longest;
  const past = await ask("GET", "/visit/history", secret);
  past.lines.forEach(show);
  field.disabled = false;
  button.disabled = false;
  status.textContent = "";
  listen(past.after);
} catch (error) {
  if (!ended) status.textContent = error.message;
}

export {}; // a module of its own, as the page loads it
