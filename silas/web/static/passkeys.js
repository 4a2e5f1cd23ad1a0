// @ts-check
// Passkeys: what a person proves with a finger, a face or a PIN, over exactly the hash of a plan.
import { base64, canonicalBytes, sha256 } from "/canonical.js";
import { h } from "/dom.js";
import { answerOf } from "/keys.js";
import { typed } from "/program.js";
import { sessionFetch, signedFetch } from "/session.js";
import { visible } from "/visible.js";

export const url64 = (buffer) =>
  base64(buffer).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const fromUrl64 = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) =>
    each.charCodeAt(0),
  );
const fromHex = (text) => Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));
const KINDS = [-7, -8, -257];
const NONE =
  "There is no passkey on this page yet. Add one under Devices, or decide on Silas's own machine: ";

/** What there is: `{passkeys, named, first}`. */
export async function passkeysHere() {
  const answer = await sessionFetch("/api/passkeys");
  if (!answer.ok) throw new Error("The passkeys cannot be read right now.");
  return answer.json();
}

/** The hash that a passkey signs for these plans, as the server makes it. */
export async function challengeOf(plans) {
  if (plans.length === 1) return fromHex(plans[0].hash);
  return fromHex(
    await sha256(canonicalBytes(Object.fromEntries(plans.map(({ id, hash }) => [id, hash])))),
  );
}

/** An assertion over this challenge; throws if there is no passkey, or the person says no. */
export async function assertion(challenge, command) {
  const { passkeys } = await passkeysHere();
  const usable = passkeys.filter((each) => each.here);
  if (!usable.length) throw new Error(`${NONE}${command}`);
  let used;
  try {
    used = await navigator.credentials.get({
      publicKey: {
        challenge,
        userVerification: "required",
        timeout: 120000,
        allowCredentials: usable.map((each) => ({
          type: "public-key",
          id: fromUrl64(each.credential_id),
        })),
      },
    });
  } catch {
    throw new Error("The passkey was not used. Nothing was decided.");
  }
  const { clientDataJSON, authenticatorData, signature } = used.response;
  return {
    credential_id: url64(used.rawId),
    client_data: base64(clientDataJSON),
    authenticator_data: base64(authenticatorData),
    signature: base64(signature),
  };
}

async function registration(device, name) {
  const given = await post(device, "/api/passkeys/challenge", {});
  /** @type {any} */
  const made = await navigator.credentials.create({
    publicKey: {
      challenge: fromUrl64(given.challenge),
      attestation: "none",
      timeout: 120000,
      rp: { id: given.rp_id, name: "Silas" },
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name: "owner", displayName: name },
      pubKeyCredParams: KINDS.map((alg) => ({ type: "public-key", alg })),
      authenticatorSelection: { userVerification: "required", residentKey: "discouraged" },
    },
  });
  return {
    credential_id: url64(made.rawId),
    client_data: base64(made.response.clientDataJSON),
    authenticator_data: base64(made.response.getAuthenticatorData()),
  };
}

/** Make a passkey the owner's: with the code from Silas's machine, or with a passkey that is there. */
async function enrol(device, name, code) {
  const made = await registration(device, name);
  const right = code !== null ? { code } : { approval: await approvalOf(made, name) };
  return post(device, "/api/passkeys", { registration: made, name, ...right });
}

async function approvalOf({ credential_id, authenticator_data }, name) {
  const content = { type: "passkey_enrolment", credential_id, authenticator_data, name };
  return assertion(fromHex(await sha256(canonicalBytes(content))), typed("devices passkey"));
}

async function post(device, path, value) {
  return answerOf(await signedFetch(device, path, value), "That did not work.");
}

/** The part of the dialog that lists passkeys and adds one; `draw()` fills it. */
export function passkeySection(device) {
  const list = h("ul", { class: "devices" });
  const note = h("p", { class: "dialog-note", role: "status" });
  const adding = h("div", { class: "passkey-adding" });
  // One field for as long as the dialog lives: drawing anew takes away nothing that was typed.
  const code = h("input", {
    id: "passkey-code",
    inputmode: "numeric",
    autocomplete: "one-time-code",
    maxlength: "40",
  });
  const node = h(
    "section",
    { class: "passkeys", "aria-labelledby": "passkeys-head" },
    h("h3", { id: "passkeys-head" }, "Passkeys"),
    h(
      "p",
      { class: "dialog-lead" },
      "What cannot be undone takes one of these besides this device's key.",
    ),
    list,
    adding,
    note,
  );
  const draw = async () => {
    const here = await passkeysHere();
    list.replaceChildren(...here.passkeys.map(row));
    adding.replaceChildren(
      here.named
        ? form(here.first)
        : h(
            "p",
            { class: "dialog-note" },
            "Browsers make passkeys for names, not for numbers. Pair this browser once more at ",
            h("code", {}, `http://localhost:${location.port || "80"}`),
            ": take the link of ",
            h("code", {}, typed("devices pair")),
            " and open it with localhost instead of 127.0.0.1.",
          ),
    );
  };
  const row = (each) =>
    h(
      "li",
      {},
      h(
        "div",
        {},
        h("strong", {}, visible(each.name)),
        h(
          "p",
          { class: "meta" },
          `since ${new Date(each.enrolled_at).toLocaleDateString()}${each.here ? "" : " · for another address of this page"}`,
        ),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet decline",
          "aria-label": `Remove the passkey ${each.name}`,
          onclick: () =>
            act(
              () => post(device, `/api/passkeys/${each.credential_id}/revoke`, {}),
              `${each.name} is removed.`,
            ),
        },
        "Remove",
      ),
    );
  const form = (first) => {
    const add = h("button", { type: "submit", class: "quiet" }, "Add a passkey");
    return h(
      "form",
      {
        class: "passkey-form",
        onsubmit: (event) => {
          event.preventDefault();
          act(
            () => enrol(device, `Passkey of ${device.name}`, first ? code.value.trim() : null),
            "The passkey is added.",
          );
        },
      },
      first && [
        h(
          "label",
          { for: "passkey-code" },
          "Code that ",
          h("code", {}, typed("devices passkey")),
          " shows on Silas's machine",
        ),
        code,
      ],
      !first &&
        h(
          "p",
          { class: "dialog-note" },
          "You will be asked twice: for the new passkey, and for one that is there already.",
        ),
      add,
    );
  };
  const act = async (work, done) => {
    note.textContent = "Waiting for the browser…";
    for (const control of [code, ...node.querySelectorAll("button")]) control.disabled = true;
    let told = done;
    try {
      await work();
      code.value = "";
    } catch (problem) {
      told = problem.name === "NotAllowedError" ? "The browser made no passkey." : problem.message;
    }
    await draw().catch(() => {
      for (const button of node.querySelectorAll("button")) button.disabled = false;
    });
    code.disabled = false;
    note.textContent = told;
  };
  return {
    node,
    draw: () =>
      draw().catch((problem) => {
        note.textContent = problem.message;
      }),
  };
}
