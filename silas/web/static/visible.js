// @ts-check
// What is shown is what is there: characters that steer or hide text are written out.

const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0\u{1d159}\ufe00-\ufe0f\u{e0100}-\u{e01ef}]|(?! )\p{Zs}/gu;
const KEPT = new Set(["\n", "\t"]);
const EMOJI_JOINERS = new Set(["\u200d", "\ufe0f"]);

/** Text as nodes; `emoji` lets the joiners of pictures through, for talk but not for plans. */
export function visible(text, { emoji = false } = {}) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const found = match[0];
    if (KEPT.has(found) || (emoji && EMOJI_JOINERS.has(found))) continue;
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    nodes.push(escaped(found));
    from = match.index + found.length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

function escaped(character) {
  const name = `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  const node = document.createElement("span");
  node.className = "hidden-character";
  node.title = "An invisible character";
  node.textContent = name;
  return node;
}
