// @ts-check
// A skill before the owner: what it would be given, what was found in it, and every file of it.
import { sha256 } from "/canonical.js";
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { codeBlock } from "/markdown.js";
import { sessionFetch } from "/session.js";
import { visible } from "/visible.js";

const WEIGHTS = { danger: "Danger", warn: "Warning", info: "Note" };
const NOT_SHOWN = "This file cannot be shown right now. Do not say yes to what you cannot read.";
const OTHER = "This is not the file that would be signed. Nothing of it is shown.";

const read = async (path) => answerOf(await sessionFetch(`/api/skills/${path}`), NOT_SHOWN);
const steps = (path) => path.split("/").map(encodeURIComponent).join("/");

/** What was found in the files, the weightiest first. */
export function findingList(findings) {
  if (!findings.length) return h("p", { class: "meta" }, "Nothing suspicious was found in it.");
  return h(
    "ul",
    { class: "findings", "aria-label": "Findings" },
    findings.map((each) =>
      h(
        "li",
        { class: `finding finding-${each.weight}` },
        h("strong", {}, WEIGHTS[each.weight] ?? each.weight),
        h("span", {}, visible(each.message)),
        h("code", {}, visible(`${each.file}:${each.line}`)),
      ),
    ),
  );
}

/** Every file, opened one by one; what does not have the digest that is listed is not shown. */
export function fileList(digest, files) {
  return h(
    "ul",
    { class: "skill-files", "aria-label": "Files" },
    files.map((file) => h("li", {}, fileDetails(digest, file))),
  );
}

function fileDetails(digest, file) {
  const place = h("div", { class: "skill-file" }, h("p", { class: "meta" }, "Loading …"));
  let asked = false;
  const node = h(
    "details",
    { class: "raw" },
    h("summary", {}, icon("chevron"), visible(file.path), ` (${file.size} bytes)`),
    place,
  );
  node.addEventListener("toggle", async () => {
    if (!(/** @type {HTMLDetailsElement} */ (node).open) || asked) return;
    asked = true;
    try {
      place.replaceChildren(await shownFile(digest, file));
    } catch (problem) {
      asked = false;
      place.replaceChildren(h("p", { role: "alert" }, problem.message));
    }
  });
  return node;
}

async function shownFile(digest, file) {
  const found = await read(`file/${digest}/${steps(file.path)}`);
  if (found.text === null)
    return h("p", { class: "meta" }, `No text, or too long for a page. SHA-256: ${file.sha256}`);
  if ((await sha256(new TextEncoder().encode(found.text))) !== file.sha256) throw new Error(OTHER);
  return codeBlock(found.text);
}

function changeList({ digest, replaces, changes }) {
  if (!replaces) return null;
  const lines = [
    ...changes.added.map((path) => h("li", {}, "Added ", h("code", {}, visible(path)))),
    ...changes.removed.map((path) => h("li", {}, "Removed ", h("code", {}, visible(path)))),
    ...changes.changed.map((path) => h("li", {}, changedFile(replaces, digest, path))),
  ];
  return h(
    "section",
    { class: "skill-changes" },
    h("h3", {}, "Different from the version in force"),
    h("ul", { class: "skill-files" }, lines),
  );
}

function changedFile(before, after, path) {
  const place = h("div", { class: "skill-file" }, h("p", { class: "meta" }, "Loading …"));
  const node = h(
    "details",
    { class: "raw" },
    h("summary", {}, icon("chevron"), "Changed ", visible(path)),
    place,
  );
  node.addEventListener("toggle", async () => {
    try {
      const found = await read(`difference/${before}/${after}/${steps(path)}`);
      place.replaceChildren(
        found.lines.length
          ? codeBlock(found.lines.join("\n"))
          : h("p", { class: "meta" }, "No text: compare the digests."),
      );
    } catch (problem) {
      place.replaceChildren(h("p", { role: "alert" }, problem.message));
    }
  });
  return node;
}

const summaryList = (lines) =>
  h(
    "ul",
    { class: "skill-summary" },
    lines.map((line) => h("li", {}, visible(line))),
  );

/** The parts of the card that asks whether to fetch one. */
export const sourceParts = {
  body: ({ body }) => ({ node: h("div", { class: "skill" }, summaryList(body.summary)) }),
};

const EFFECTS = {
  read: "It only reads.",
  change: "It changes something.",
  send: "It tells somebody something, for good.",
  irreversible: "What it does cannot be taken back.",
};

/** The tools of a server: what its owner says of each first, then what its server says. */
export function toolList(tools) {
  return h(
    "ul",
    { class: "skill-files", "aria-label": "Tools" },
    tools.map((tool) =>
      h(
        "li",
        {},
        h(
          "details",
          { class: "raw" },
          h("summary", {}, icon("chevron"), h("code", {}, visible(tool.name))),
          h("p", {}, EFFECTS[tool.effect] ?? "You have not said what it does: it asks every time."),
          tool.claims && h("p", { class: "meta" }, `Its server claims: ${visible(tool.claims)}.`),
          h("p", {}, "Its server says of it:"),
          codeBlock(tool.description || "nothing"),
          codeBlock(JSON.stringify(tool.input_schema, null, 2)),
        ),
      ),
    ),
  );
}

/** The parts of the card. */
export const skillParts = {
  body: ({ body }) => ({
    node: h(
      "div",
      { class: "skill" },
      summaryList(body.summary),
      findingList(body.skill.findings),
      changeList(body.skill),
    ),
    details: h(
      "section",
      { class: "plan" },
      body.tools && h("h3", {}, "Every tool, with what its server says of it"),
      body.tools && toolList(body.tools),
      h("h3", {}, "Every file that would be installed"),
      fileList(body.skill.digest, body.skill.files),
    ),
  }),
};
