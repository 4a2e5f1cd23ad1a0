// @ts-check
// Canonical JSON (RFC 8785), the same bytes as `silas.kernel.canonical`.

const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** The one spelling of a value; throws if it has none. */
export function canonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object") {
    // `sort` compares UTF-16 code units, as the RFC wants it.
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${text(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  throw new TypeError(`JSON has no ${typeof value}`);
}

function text(value) {
  if (LONE_SURROGATE.test(value)) throw new TypeError("a lone surrogate has no canonical form");
  return JSON.stringify(value);
}

function number(value) {
  if (!Number.isFinite(value)) throw new TypeError("not a JSON number");
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
    throw new TypeError("an integer beyond 53 bits loses digits elsewhere");
  }
  return JSON.stringify(value);
}

export const canonicalBytes = (value) => new TextEncoder().encode(canonical(value));

/** SHA-256 in hexadecimal. */
export async function sha256(bytes) {
  return hex(await crypto.subtle.digest("SHA-256", bytes));
}

export const hex = (buffer) =>
  Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
