// @ts-check
// The way in: this browser becomes one of the owner's devices, with one tap. A Silas that is locked
// is opened with its passphrase first.
import { h, icon } from "/dom.js";
import { answerOf, pair, sendSigned } from "/keys.js";
import { learnProgram, learnToken, needsToken, typed } from "/program.js";
import { CONVERSATION_MARK } from "/state.js";

const CODE_MILLISECONDS = 10 * 60 * 1000;
const HEALTH_MILLISECONDS = 500;
const STARTING_MILLISECONDS = 60 * 1000;

/**
 * The one-time code of the link. It is taken out of the address at once, and the history entry of
 * this tab keeps it for as long as it is good: whoever reloads the page need not fetch another one.
 */
export function takeCode() {
  const found = /^#pair=([\w-]{8,100})$/.exec(location.hash);
  if (!found) return keptCode();
  keep({ code: found[1], until: Date.now() + CODE_MILLISECONDS });
  return found[1];
}

function keptCode() {
  const { code, until } = history.state?.pair ?? {};
  if (typeof code === "string" && Date.now() < until) {
    if (hasForeignHash()) keep({ code, until });
    return code;
  }
  if (hasForeignHash() || history.state?.pair) forgetCode();
  return null;
}

// Whatever else stands behind the address is taken out of it: only a conversation is named there.
const hasForeignHash = () => Boolean(location.hash) && !location.hash.startsWith(CONVERSATION_MARK);
const keep = (pair) => history.replaceState({ pair }, "", "/");
const forgetCode = () => history.replaceState(null, "", "/");

/** Whether Silas waits for its passphrase; one that cannot be reached does not say. */
export async function isLocked() {
  try {
    const answer = await fetch("/health");
    if (!answer.ok) return false;
    const health = await answer.json();
    learnProgram(health.program);
    learnToken(health.token);
    return health.status === "locked";
  } catch {
    return false;
  }
}

function browserName() {
  const agent = navigator.userAgent;
  const browser =
    [
      ["Edg/", "Edge"],
      ["Firefox/", "Firefox"],
      ["Chrome/", "Chrome"],
      ["Safari/", "Safari"],
    ].find(([mark]) => agent.includes(mark))?.[1] ?? "Browser";
  const system =
    [
      ["Android", "Android"],
      ["iPhone", "iPhone"],
      ["iPad", "iPad"],
      ["Mac OS", "Mac"],
      ["Windows", "Windows"],
      ["Linux", "Linux"],
    ].find(([mark]) => agent.includes(mark))?.[1] ?? "";
  return `${browser}${system ? ` on ${system}` : ""}`;
}

/** The view for a browser that is not paired; `done(device)` is called once it is. */
export function pairingView({ code, revoked, done }) {
  if (!globalThis.isSecureContext || !crypto.subtle) {
    return page(
      "This address is not safe enough",
      h(
        "p",
        {},
        "A browser makes keys only on https, or on the machine where Silas runs. There, open ",
        h("code", {}, "http://127.0.0.1"),
        ". For a phone, Silas needs an https address: docs/web.md, “From a phone”, has three ways.",
      ),
    );
  }
  if (!code) {
    return page(
      revoked ? "This browser is no longer paired" : "This browser is not paired",
      h("p", {}, "On the machine where Silas runs, type"),
      h("pre", { class: "code" }, h("code", {}, typed("devices pair"))),
      h("p", {}, "and open the link that it prints."),
    );
  }
  return page("Pair this browser", form(code, done));
}

function form(code, done) {
  const name = h("input", {
    id: "device-name",
    value: browserName(),
    maxlength: "80",
    autocomplete: "off",
    spellcheck: "false",
  });
  const token = needsToken()
    ? h("input", { id: "device-token", type: "password", autocomplete: "off" })
    : null;
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Pair this browser");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      const device = await pair({
        code,
        name: name.value.trim() || browserName(),
        token: token?.value,
      });
      forgetCode();
      done(device);
    } catch (error) {
      if (error.status === 403) forgetCode();
      problem.textContent =
        error.name === "NotSupportedError"
          ? "This browser cannot make Ed25519 keys. Use a current one."
          : error.message;
      button.disabled = false;
    }
  };
  return h(
    "form",
    { onsubmit: submit },
    h(
      "p",
      {},
      "A key is made in this browser and never leaves it. It signs what you say and what you approve; you can end it at any time.",
    ),
    h("label", { for: "device-name" }, "Name of this device"),
    name,
    token && [h("label", { for: "device-token" }, "Access token"), token],
    button,
    problem,
  );
}

/** The view of a locked Silas; `done()` is called once it is open and has started. */
export function lockedView({ code, device, done }) {
  if (!code && !device) {
    return page(
      "Silas is locked",
      h("p", {}, "It was started without its passphrase. On the machine where it runs, type"),
      h("pre", { class: "code" }, h("code", {}, typed("unlock"))),
      h("p", {}, "or open the link that this command prints:"),
      h("pre", { class: "code" }, h("code", {}, typed("devices pair"))),
    );
  }
  return page("Silas is locked", passphraseForm({ code, device, done }));
}

function passphraseForm({ code, device, done }) {
  const input = h("input", {
    id: "vault-passphrase",
    type: "password",
    maxlength: "4095",
    autocomplete: "current-password",
    spellcheck: "false",
  });
  const problem = h("p", { class: "problem", role: "alert" });
  const note = h("p", { class: "choice-note", role: "status" });
  const button = h("button", { type: "submit", class: "primary" }, "Unlock");
  const submit = async (event) => {
    event.preventDefault();
    const passphrase = input.value;
    if (!passphrase) {
      problem.textContent = "Type the passphrase first.";
      input.focus();
      return;
    }
    input.value = "";
    button.disabled = true;
    problem.textContent = "";
    note.textContent = "Opening the vault …";
    try {
      await unlock({ passphrase, code, device });
      note.textContent = "The vault is open. Silas is starting …";
      await hasStarted();
      done();
      return;
    } catch (error) {
      problem.textContent = error.message;
    }
    note.textContent = "";
    button.disabled = false;
    input.focus();
  };
  return h(
    "form",
    { onsubmit: submit },
    h(
      "p",
      {},
      "Silas was started without the passphrase of its vault, so it can neither sign nor check anything. The passphrase stays on this machine and is kept nowhere.",
    ),
    h("label", { for: "vault-passphrase" }, "Passphrase"),
    input,
    button,
    note,
    problem,
  );
}

async function unlock({ passphrase, code, device }) {
  const body = code ? { passphrase, code } : { passphrase, device_id: device.deviceId };
  const answer = code
    ? await fetch("/api/unlock", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      })
    : await sendSigned(device, "/api/unlock", body);
  // Somebody else was faster: it is open, and there is nothing to unlock any more.
  if (answer.status !== 404) await answerOf(answer, "Silas did not take this.");
}

/** Wait until Silas answers for itself again. */
async function hasStarted() {
  const end = Date.now() + STARTING_MILLISECONDS;
  while (Date.now() < end) {
    try {
      const answer = await fetch("/health");
      if (answer.ok && (await answer.json()).status === "ok") return;
    } catch {
      // it is between two states, and does not listen for a moment
    }
    await new Promise((resolve) => setTimeout(resolve, HEALTH_MILLISECONDS));
  }
  throw new Error("The vault is open, but Silas does not start. Look at its log.");
}

function page(title, ...content) {
  return h(
    "main",
    { class: "gate" },
    h("div", { class: "gate-box" }, icon("shield", "big"), h("h1", {}, title), ...content),
  );
}
