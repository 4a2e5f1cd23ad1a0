// @ts-check
// What a plan touches, as a tree of folders: each file with what becomes of it, in words and colour.
import { h, icon } from "/dom.js";
import { visible } from "/visible.js";

// What goes away comes first: on a phone, the end of a long list is out of sight.
const KINDS = ["remove", "change", "add"];
const VERBS = { remove: "Removes", change: "Changes", add: "Adds" };
const DONE = { remove: "removed", change: "changed", add: "added" };
const LARGE = 12; // files, from which on folders begin closed
const SMALL = 6; // things in a folder that is open even then

/**
 * @typedef {{ kind: string, path: string, name: string, note: string, pattern: boolean }} Leaf
 * @typedef {{ name: string, folders: Map<string, Folder>, leaves: Leaf[] }} Folder
 */

/**
 * The tree of these paths, each under its kind; a folder that holds one thing alone is one line with it.
 * @param {Record<string, string[]>} changes
 * @param {Record<string, string>} notes
 * @returns {Folder}
 */
export function treeOf(changes, notes) {
  const root = folder("");
  for (const kind of KINDS)
    for (const path of [...new Set(changes[kind] ?? [])]) {
      const parts = path.split("/");
      const name = parts.pop() ?? "";
      let place = root;
      for (const part of parts) {
        const below = place.folders.get(part) ?? folder(`${part}/`);
        place.folders.set(part, below);
        place = below;
      }
      place.leaves.push({ kind, path, name, note: notes[path] ?? "", pattern: /[*?]/.test(path) });
    }
  return joined(root);
}

/** @returns {Folder} */
const folder = (name) => ({ name, folders: new Map(), leaves: [] });

function joined(place) {
  const folders = new Map();
  const leaves = [...place.leaves];
  for (const [key, below] of place.folders) {
    const inner = joined(below);
    if (inner.folders.size === 0 && inner.leaves.length === 1)
      leaves.push({ ...inner.leaves[0], name: `${inner.name}${inner.leaves[0].name}` });
    else if (inner.leaves.length === 0 && inner.folders.size === 1) {
      const [only] = inner.folders.values();
      folders.set(key, { ...only, name: `${inner.name}${only.name}` });
    } else folders.set(key, inner);
  }
  return { ...place, folders, leaves };
}

/** All files of a folder, those below it as well. */
export const leavesOf = (place) => [
  ...place.leaves,
  ...[...place.folders.values()].flatMap(leavesOf),
];

/** How many are removed, changed and added; a pattern stands for files that nobody has counted. */
export function countedIn(leaves) {
  const words = KINDS.map((kind) => {
    const mine = leaves.filter((leaf) => leaf.kind === kind);
    const patterns = mine.filter(({ pattern }) => pattern).length;
    const files = mine.length - patterns;
    const parts = [
      files > 0 && (patterns ? plural(files, "file") : `${files}`),
      patterns > 0 && plural(patterns, "pattern"),
    ];
    return mine.length > 0 && `${parts.filter(Boolean).join(" and ")} ${DONE[kind]}`;
  });
  return words.filter(Boolean).join(", ");
}

const plural = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;

/** What the owner should not miss: what goes away, and what will be executed. */
const standsOut = ({ kind, note, pattern }) => kind === "remove" || (note && !pattern);

/** The tree, to read and to fold; null if nothing is touched. */
export function changeTree(changes, notes) {
  const root = treeOf(changes, notes);
  const leaves = leavesOf(root);
  if (!leaves.length) return null;
  return h(
    "div",
    { class: "files", role: "group", "aria-label": "What it changes" },
    leaves.length > 1 && h("p", { class: "tree-sum" }, countedIn(leaves)),
    level(root, leaves.length > LARGE),
  );
}

const rank = (leaves) => Math.min(...leaves.map(({ kind }) => KINDS.indexOf(kind)));

function level(place, large) {
  const rows = [
    ...place.leaves.map((leaf) => ({ rank: rank([leaf]), node: () => fileRow(leaf) })),
    ...[...place.folders.values()].map((below) => ({
      rank: rank(leavesOf(below)),
      node: () => folderRow(below, large),
    })),
  ].sort((one, other) => one.rank - other.rank);
  return h(
    "ul",
    { class: "tree" },
    rows.map(({ node }) => node()),
  );
}

function folderRow(place, large) {
  const leaves = leavesOf(place);
  // What must not be missed is never folded away.
  const small = place.leaves.length + place.folders.size <= SMALL;
  const open = !large || small || leaves.some(standsOut);
  return h(
    "li",
    {},
    h(
      "details",
      { class: "tree-folder", open, "data-key": `folder ${leaves[0].path}` },
      h(
        "summary",
        {},
        icon("chevron"),
        h("span", {}, h("code", {}, visible(place.name)), " ", countedIn(leaves)),
      ),
      level(place, large),
    ),
  );
}

function fileRow({ kind, name, note, pattern }) {
  const marked = kind === "remove" || note;
  return h(
    "li",
    { class: `tree-file${marked ? " file-marked" : ""}${pattern ? " tree-pattern" : ""}` },
    marked && icon("alert"),
    h(
      "span",
      {},
      h("span", { class: `file-kind tree-${kind}` }, VERBS[kind]),
      " ",
      h("code", {}, visible(name)),
      note && [": ", visible(note)],
    ),
  );
}
