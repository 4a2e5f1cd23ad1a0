// The bytes that are signed in the browser are those that Silas checks: the vectors of `silas.kernel.canonical`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { base64, canonical, canonicalBytes, hex, sha256 } from "/canonical.js";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const { cases } = read("../../../vectors/canonical_json.json");

// `JSON.parse` has lost what is wrong with these before a value is there; only a reader of bytes can refuse them.
const LOST_IN_PARSING = new Set([
  "a key twice",
  "a key twice, once escaped",
  "a key twice, deep inside",
  "nested a hundred and one deep",
]);
// JavaScript has one kind of number: it cannot tell this float from an integer that was rounded, and refuses both.
const REFUSED_HERE_ALONE = new Set(["a float that is written without a point"]);

const parsed = (document) =>
  JSON.parse(
    new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(document, "hex")),
  );

for (const { name, document, canonical: expected } of cases) {
  if (LOST_IN_PARSING.has(name)) continue;
  test(`canonical form: ${name}`, () => {
    if (expected === null || REFUSED_HERE_ALONE.has(name))
      assert.throws(() => canonical(parsed(document)));
    else assert.equal(hex(canonicalBytes(parsed(document))), expected);
  });
}

test("the exceptions are named as the vectors name them", () => {
  const names = new Set(cases.map(({ name }) => name));
  assert.deepEqual(
    [...LOST_IN_PARSING, ...REFUSED_HERE_ALONE].filter((name) => !names.has(name)),
    [],
  );
});

test("a canonical form is its own canonical form", () => {
  for (const value of read("../canonical_vectors.json")) {
    assert.equal(canonical(JSON.parse(canonical(value))), canonical(value));
  }
});

test("values that JSON does not have are refused, at every depth", () => {
  const wrong = [
    NaN,
    -Infinity,
    undefined,
    1n,
    2 ** 53,
    -(2 ** 53),
    Symbol("s"),
    () => 1,
    "\ud800",
    { "\udc00": 1 },
  ];
  for (const value of wrong) {
    assert.throws(() => canonical(value), TypeError);
    assert.throws(() => canonical([{ deep: [value] }]), TypeError);
  }
});

test("hashes and bytes are spelled as Python spells them", async () => {
  assert.equal(
    await sha256(canonicalBytes({ b: 1, a: [] })),
    "1c8f8816506a8ccbc55140d8a7bb70214a8942c7030fc0fc2914cec675cd1c15",
  );
  assert.equal(hex(new Uint8Array([0, 1, 255])), "0001ff");
  assert.equal(base64(new Uint8Array([0, 1, 255])), "AAH/");
});
