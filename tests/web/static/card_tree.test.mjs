// What a plan touches as a tree: folders, counts, marks, and what is never folded away.
import assert from "node:assert/strict";
import { test } from "node:test";

import { changeTree, countedIn, leavesOf, treeOf } from "/card_tree.js";
import { all } from "./page.mjs";

const names = (tree) => all(tree, "code").map((each) => each.textContent);
const many = (folder, count) => Array.from({ length: count }, (_, at) => `${folder}/${at}.txt`);

test("a folder that holds one thing is one line with it", () => {
  const tree = changeTree({ add: ["a/b/c.txt", "x/y/1.txt", "x/y/2.txt"] }, {});
  assert.deepEqual(names(tree), ["a/b/c.txt", "x/y/", "1.txt", "2.txt"]);
});

test("what goes away comes first, in every folder", () => {
  const tree = changeTree({ add: ["d/new.txt", "top.txt"], remove: ["d/old.txt"] }, {});
  assert.deepEqual(
    all(tree, "li").map((each) => each.textContent),
    [
      "d/ 1 removed, 1 addedRemoves old.txtAdds new.txt",
      "Removes old.txt",
      "Adds new.txt",
      "Adds top.txt",
    ],
  );
});

test("every path of every kind is there once for its kind", () => {
  const tree = treeOf({ add: ["a", "a", "b/c"], change: ["a"], remove: [] }, {});
  const found = leavesOf(tree).map(({ kind, path }) => [kind, path]);
  assert.deepEqual(found.sort(), [
    ["add", "a"],
    ["add", "b/c"],
    ["change", "a"],
  ]);
});

test("a pattern is counted as a pattern: nobody knows how many files it is", () => {
  const leaves = leavesOf(treeOf({ add: ["build/**", "a.txt"], change: ["*.md"] }, {}));
  assert.equal(countedIn(leaves), "1 pattern changed, 1 file and 1 pattern added");
});

test("of many files, folders begin closed, but not those with something to see", () => {
  const changes = {
    add: [...many("plain", 20), ...many("tools", 8)],
    remove: ["gone/a", "gone/b"],
  };
  const tree = changeTree(changes, { "tools/3.txt": "becomes a program" });
  const open = Object.fromEntries(
    all(tree, "details").map((each) => [names(each)[0], "open" in each.attributes]),
  );
  assert.deepEqual(open, { "plain/": false, "tools/": true, "gone/": true });
});

test("nothing that is said in a name becomes markup", () => {
  const tree = changeTree({ add: ["<b>x</b>/y", "<b>x</b>/z"] }, { "<b>x</b>/y": "<i>note</i>" });
  assert.equal(all(tree, "b").length + all(tree, "i").length, 0);
  assert.ok(tree.textContent.includes("<i>note</i>"));
});
