// @ts-check
// This browser's key: made here, never readable, kept in IndexedDB.
import { base64, canonicalBytes, hex, sha256 } from "/canonical.js";

const DATABASE = "silas";
const STORE = "device";
const THIS = "this";

function store(mode, work) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction(STORE, mode);
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => {
        database.close();
        resolve(request.result);
      };
      transaction.onerror = () => reject(transaction.error);
      transaction.onabort = () => reject(transaction.error);
    };
  });
}

/** The device that this browser is, or undefined. */
export const loadDevice = () => store("readonly", (each) => each.get(THIS));
/** Something small that this browser remembers beside its key. */
export const loadNote = (name) => store("readonly", (each) => each.get(`note.${name}`));
export const keepNote = (name, text) =>
  store("readwrite", (each) => each.put(text, `note.${name}`));
const keepDevice = (device) => store("readwrite", (each) => each.put(device, THIS));

/** Make a key and have the server take this browser for the owner's, with the one-time code. */
export async function pair({ code, name, token }) {
  const keys = await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"]);
  const publicKey = hex(await crypto.subtle.exportKey("raw", keys.publicKey));
  const origin = location.origin;
  const proof = { type: "pair", code, public_key: publicKey, name, origin };
  const answer = await fetch("/api/pair", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      code,
      name,
      public_key: publicKey,
      signature: await signed(keys.privateKey, proof),
      token: token || null,
    }),
  });
  const said = await answerOf(answer, "Silas refused this.");
  const device = { keys, deviceId: said.device_id, name: said.name, token: token || null };
  await keepDevice(device);
  return device;
}

async function signed(privateKey, value) {
  return base64(await crypto.subtle.sign("Ed25519", privateKey, canonicalBytes(value)));
}

/** This device's signature over a value's canonical bytes, in base64. */
export const sign = (device, value) => signed(device.keys.privateKey, value);

/** Now, as Silas writes it. */
export const timestamp = () => new Date().toISOString().replace("Z", "000Z");

export function nonce() {
  return hex(crypto.getRandomValues(new Uint8Array(16)));
}

/** A change over HTTP, signed by this device. */
export async function sendSigned(device, path, value) {
  const body = JSON.stringify(value);
  const [at, once] = [timestamp(), nonce()];
  const signature = await sign(device, {
    type: "request",
    method: "POST",
    path,
    body_sha256: await sha256(new TextEncoder().encode(body)),
    timestamp: at,
    nonce: once,
  });
  return fetch(path, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "Silas-Timestamp": at,
      "Silas-Nonce": once,
      "Silas-Signature": signature,
    },
    body,
  });
}

/** What an answer says; a refusal becomes an error in Silas's words, or in these. */
export async function answerOf(answer, otherwise) {
  const said = await answer.json();
  if (!answer.ok)
    throw Object.assign(
      new Error(typeof said.detail === "string" ? said.detail : (said.error ?? otherwise)),
      { status: answer.status },
    );
  return said;
}
