// @ts-check
// Markdown as nodes. What is not understood stays text; images are never loaded.
import { h, outsideLink } from "/dom.js";
import { visible } from "/visible.js";

// As silas/work/script.py reads them: what is shown as a block is what is executed.
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*([\s\S]*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const BULLET = /^(\s*)[-*+]\s+(.*)$/;
const ORDERED = /^(\s*)(\d{1,9})[.)]\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const INLINE =
  /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\n]+)\*(?!\w)|(?<!\w)_([^_\n]+)_(?!\w)|!?\[([^\]\n]*)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>()"']*[^\s<>()"'.,;:!?])/g;
const TABLE = /^\s{0,3}\|.*\|\s*$/;
const TABLE_LINE = /^\s{0,3}\|(\s*:?-+:?\s*\|)+\s*$/;
const MOST_DEPTH = 6;

/** A fragment that shows this text. */
export function markdown(text, depth = 0) {
  const fragment = document.createDocumentFragment();
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length) {
    const [node, next] = block(lines, at, depth);
    if (node) fragment.append(node);
    at = next;
  }
  return fragment;
}

function block(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [h(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(heading[2])), at + 1];
  if (RULE.test(line)) return [h("hr"), at + 1];
  if (TABLE.test(line) && TABLE_LINE.test(lines[at + 1] ?? "")) return table(lines, at);
  if (depth < MOST_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MOST_DEPTH && (BULLET.test(line) || ORDERED.test(line))) return list(lines, at);
  return paragraph(lines, at);
}

/** @param {string[]} lines @param {number} at @param {string[]} fence */
function code(lines, at, [, mark, info]) {
  const inside = [];
  let next = at + 1;
  while (next < lines.length && !closes(lines[next], mark)) inside.push(lines[next++]);
  return [codeBlock(inside.join("\n"), info.trim()), next + 1];
}

function closes(line, mark) {
  const found = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line);
  return found !== null && found[1][0] === mark[0] && found[1].length >= mark.length;
}

/** A block of code, with what its first line says about it. */
export function codeBlock(text, info = "") {
  return h(
    "figure",
    { class: "code-block" },
    info && h("figcaption", {}, visible(info)),
    h("pre", { class: "code", tabindex: "0" }, h("code", {}, visible(text))),
  );
}

/** The blocks of code in a text, each with its first line; and the rest, without headings. */
export function blocksOf(text) {
  const blocks = [];
  const rest = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const fence = FENCE.exec(lines[at]);
    if (!fence) {
      if (lines[at].trim() && !HEADING.test(lines[at])) rest.push(lines[at].trim());
      continue;
    }
    const inside = [];
    while (at + 1 < lines.length && !closes(lines[at + 1], fence[1])) inside.push(lines[(at += 1)]);
    at += 1;
    blocks.push({ info: fence[2].trim(), lines: inside });
  }
  return { blocks, rest: rest.join(" ") };
}

function quote(lines, at, depth) {
  const inside = [];
  let next = at;
  while (next < lines.length && QUOTE.test(lines[next]))
    inside.push(QUOTE.exec(lines[next++])?.[1]);
  return [h("blockquote", {}, markdown(inside.join("\n"), depth + 1)), next];
}

function list(lines, at) {
  const ordered = ORDERED.exec(lines[at]);
  const kind = ordered ? ORDERED : BULLET;
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = kind.exec(lines[next]);
    if (found) items.push([found.at(-1)]);
    else if (items.length && /^\s{2,}\S/.test(lines[next])) items.at(-1).push(lines[next].trim());
    else break;
    next += 1;
  }
  const nodes = items.map((parts) => h("li", {}, inline(parts.join("\n"))));
  return [h(ordered ? "ol" : "ul", ordered ? { start: ordered[2] } : {}, nodes), next];
}

function table(lines, at) {
  const cells = (line) =>
    line
      .trim()
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
  const rows = [];
  let next = at + 2;
  while (next < lines.length && TABLE.test(lines[next])) rows.push(cells(lines[next++]));
  const node = h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        cells(lines[at]).map((cell) => h("th", {}, cell)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          row.map((cell) => h("td", {}, cell)),
        ),
      ),
    ),
  );
  return [
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, node),
    next,
  ];
}

function paragraph(lines, at) {
  const inside = [];
  let next = at;
  while (next < lines.length && lines[next].trim() && !startsBlock(lines[next], next > at))
    inside.push(lines[next++]);
  if (!inside.length) inside.push(lines[next++]);
  return [h("p", {}, inline(inside.join("\n"))), next];
}

const startsBlock = (line, isLater) =>
  isLater &&
  (FENCE.test(line) ||
    TABLE.test(line) ||
    HEADING.test(line) ||
    QUOTE.test(line) ||
    BULLET.test(line) ||
    ORDERED.test(line));

/** One line's worth of marks. */
export function inline(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    nodes.push(...visible(text.slice(from, match.index), { emoji: true }));
    nodes.push(mark(match));
    from = match.index + match[0].length;
  }
  nodes.push(...visible(text.slice(from), { emoji: true }));
  return nodes;
}

function mark([whole, , ticks, bold, star, underscore, label, target, address]) {
  if (ticks !== undefined) return h("code", {}, visible(ticks));
  if (bold !== undefined) return h("strong", {}, visible(bold, { emoji: true }));
  const leaning = star ?? underscore;
  if (leaning !== undefined) return h("em", {}, visible(leaning, { emoji: true }));
  if (address !== undefined)
    return outsideLink(address, visible(address)) ?? h("span", {}, visible(whole));
  return link(whole, label, target);
}

// Where a link leads is always readable: the name of the site follows its label.
function link(whole, label, target) {
  const node = whole.startsWith("!") ? null : outsideLink(target, visible(label || target));
  if (!node) return h("span", {}, visible(whole));
  return h("span", {}, node, h("span", { class: "link-host" }, ` (${new URL(target).host})`));
}
