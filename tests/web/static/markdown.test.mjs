// Text of a model becomes nodes: what is not understood stays text, nothing is loaded, links say where they lead.
import assert from "node:assert/strict";
import { test } from "node:test";

import { blocksOf, codeBlock, inline, markdown } from "/markdown.js";

import { all, plain } from "./page.mjs";

const shown = (text) => plain(markdown(text));

test("paragraphs, headings, rules and marks", () => {
  assert.deepEqual(shown("One\ntwo\n\n# Big\n###### Small ##\n---"), [
    ["p", "One\ntwo"],
    ["h3", "Big"],
    ["h6", "Small"],
    ["hr"],
  ]);
  assert.deepEqual(shown("a **b** *c* _d_ `e*f*` snake_case_name 2*3*4"), [
    [
      "p",
      "a ",
      ["strong", "b"],
      " ",
      ["em", "c"],
      " ",
      ["em", "d"],
      " ",
      ["code", "e*f*"],
      " snake_case_name 2*3*4",
    ],
  ]);
});

test("lists keep their first number and their continued lines", () => {
  assert.deepEqual(shown("- a\n  more\n* b\nafter"), [
    ["ul", ["li", "a\nmore"], ["li", "b"]],
    ["p", "after"],
  ]);
  const [ordered] = all(markdown("3. c\n4) d"), "ol");
  assert.equal(ordered.attributes.start, "3");
  assert.deepEqual(plain(ordered), ["ol", ["li", "c"], ["li", "d"]]);
});

test("tables, with bars that are part of a cell", () => {
  assert.deepEqual(plain(all(markdown("| a | b |\n|---|:-:|\n| 1 \\| 2 | **3** |"), "table")[0]), [
    "table",
    ["thead", ["tr", ["th", "a"], ["th", "b"]]],
    ["tbody", ["tr", ["td", "1 | 2"], ["td", ["strong", "3"]]]],
  ]);
  assert.deepEqual(shown("| not | a table |"), [["p", "| not | a table |"]]);
});

test("quotes nest up to a depth, and end for every input", () => {
  assert.deepEqual(shown("> a\n> > b"), [["blockquote", ["p", "a"], ["blockquote", ["p", "b"]]]]);
  assert.equal(all(markdown(`${">".repeat(500)} deep`), "blockquote").length, 6);
});

test("a fence closes only with its own mark, as long or longer", () => {
  const text = "```sh first\nls\n~~~\n``\n`````\nafter";
  assert.deepEqual(shown(text), [
    ["figure", ["figcaption", "sh first"], ["pre", ["code", "ls\n~~~\n``"]]],
    ["p", "after"],
  ]);
  assert.deepEqual(shown("~~~\nopen to the end"), [
    ["figure", ["pre", ["code", "open to the end"]]],
  ]);
  assert.deepEqual(plain(codeBlock("x")), ["figure", ["pre", ["code", "x"]]]);
});

test("the blocks of a text are those that it shows", () => {
  const text = "# Plan\nFirst this\n```sh\nls\n```\nthen that\n~~~ py\nprint()\n\n~~~";
  assert.deepEqual(blocksOf(text), {
    blocks: [
      { info: "sh", lines: ["ls"] },
      { info: "py", lines: ["print()", ""] },
    ],
    rest: "First this then that",
  });
  assert.equal(all(markdown(text), "figure").length, 2);
});

test("markup stays text", () => {
  assert.deepEqual(shown("<img src=x onerror=alert(1)> &lt;"), [
    ["p", "<img src=x onerror=alert(1)> &lt;"],
  ]);
});

test("links lead to other sites only, and their label is followed by the site", () => {
  const [node] = all(markdown("[bank](https://evil.example/a?b)"), "a");
  assert.equal(node.href, "https://evil.example/a?b");
  assert.equal(node.rel, "noopener noreferrer nofollow");
  assert.equal(markdown("[bank](https://evil.example/a?b)").textContent, "bank (evil.example)");
  assert.equal(all(markdown("See https://example.com/x."), "a")[0].href, "https://example.com/x");
  const refused = [
    "javascript:alert",
    "data:text/html,x",
    "file:///etc/passwd",
    "https://me@a.example",
    "/in",
  ];
  for (const target of refused) {
    assert.equal(all(markdown(`[a](${target})`), "a").length, 0, target);
    assert.equal(markdown(`[a](${target})`).textContent, `[a](${target})`);
  }
});

test("images are never loaded", () => {
  const fragment = markdown("![seen](https://tracker.example/p.png)");
  assert.deepEqual([...all(fragment, "img"), ...all(fragment, "a")], []);
  assert.equal(fragment.textContent, "![seen](https://tracker.example/p.png)");
});

test("characters that hide or steer text are written out; talk may join its pictures", () => {
  assert.equal(markdown("pay\u202eyap").textContent, "payU+202Eyap");
  assert.equal(markdown("`a\u200bb`").textContent, "aU+200Bb");
  const family = "\u{1f468}\u200d\u{1f469}";
  assert.equal(
    inline(family)
      .map((node) => node.textContent)
      .join(""),
    family,
  );
  assert.equal(codeBlock(family).textContent, "\u{1f468}U+200D\u{1f469}");
});

test("every text comes to an end", () => {
  const pieces = [
    "```",
    "~~~",
    "> ",
    "- ",
    "1. ",
    "| a |",
    "|---|",
    "# ",
    "\n",
    "x",
    " ",
    "*",
    "`",
    "[",
  ];
  for (let number = 0; number < 2000; number += 1) {
    const pick = (_, place) => pieces[Math.floor((number * 7919) / (place + 1)) % pieces.length];
    const picked = Array.from({ length: 6 }, pick);
    assert.ok(markdown(picked.join("")).childNodes.length >= 0);
  }
});
