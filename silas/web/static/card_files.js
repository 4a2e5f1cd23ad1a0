// @ts-check
// Files on cards and in reports: what a plan declares, what work changed beyond it, what became of it.
import { row } from "/card_diff.js";
import { changeTree } from "/card_tree.js";
import { h, icon } from "/dom.js";
import { fileOpener } from "/results.js";
import { visible } from "/visible.js";

const SHOWN = 12;

/** The call that waits when work has changed a file beyond its plan. */
export const TAKE_OVER = "take_over";

/** What the plans say that they change; `notes` is what to know of a path beside its name. */
export function declaredFiles(plans, notes) {
  const all = plans.map(({ plan }) => plan.workspace?.changes ?? {});
  const together = (kind) => all.flatMap((each) => each[kind] ?? []);
  const changes = { remove: together("remove"), change: together("change"), add: together("add") };
  return (
    changeTree(changes, notes) ?? h("p", { class: "files-none" }, "Changes no files of yours.")
  );
}

// A goal is what its checks look at, and a project is done when its tasks are.
const lacksProof = (plan) =>
  plan.without_proof ||
  (plan.type === "task" && plan.verify.every((check) => check.influenced_by?.length));

/** Whether something could show that all of this is done. */
export const hasProof = (plans) => !plans.some(({ plan }) => lacksProof(plan));

/** What the owner should know of the checks: which of them the worker can influence, or that none counts. */
export function checkNotes(plans) {
  const influenced = plans
    .flatMap(({ plan }) => plan.verify)
    .filter((check) => check.influenced_by?.length);
  const unproven = plans.filter(({ plan }) => lacksProof(plan));
  if (!influenced.length && !unproven.length) return null;
  return h(
    "ul",
    { class: "check-notes" },
    influenced.map((check) =>
      noted(
        `Check “${check.name}”: The worker can influence this check: it writes ${check.influenced_by.join(", ")}.`,
      ),
    ),
    unproven.map(({ plan }) =>
      noted(`${plans.length > 1 ? `${plan.title}: ` : ""}Nothing will show that this is done.`),
    ),
  );
}

const noted = (text) => h("li", {}, icon("alert"), h("span", {}, visible(text)));

/** Whether a card is about files that go beyond a plan. */
export const areFiles = (plans) => plans.every(({ plan }) => plan.tool === TAKE_OVER);

export const filesTitle = (plans) =>
  `${plans.length} ${plans.length === 1 ? "file" : "files"} beyond the plan`;

/** Files to take or to leave, each with its difference and, if there are several, its own tick. */
export function fileChoice(plans) {
  // None is ticked: what was not planned is taken because somebody wants it, never by default.
  const ticks = plans.map(({ plan }) =>
    h("input", { type: "checkbox", "aria-label": `Take ${plan.args.path}` }),
  );
  const node = h(
    "ol",
    { class: "card-calls card-files" },
    plans.map(({ plan: { args } }, index) =>
      h(
        "li",
        {},
        plans.length > 1
          ? h("label", {}, ticks[index], fileHead(args))
          : h("p", { class: "file-head" }, fileHead(args)),
        difference(args),
      ),
    ),
  );
  const chosen = () => {
    const found = plans.filter((_, index) => plans.length === 1 || ticks[index].checked);
    if (!found.length) throw new Error("Tick the files to take.");
    return found;
  };
  return { node, chosen };
}

function fileHead({ kind, path, executed_by: who, executable }) {
  const marks = [
    kind === "removed" && "is removed",
    who && `${who} executes it`,
    executable && "it is a program",
  ].filter(Boolean);
  return h(
    "span",
    {},
    h("span", { class: `file-kind file-${kind}` }, visible(kind)),
    " ",
    h("code", {}, visible(path)),
    marks.length > 0 &&
      h("span", { class: "file-marked" }, icon("alert"), visible(marks.join("; "))),
  );
}

/** What the plans would write, file by file, and what of it is not known yet; null if nothing is said. */
export function previewedFiles({ files, note }) {
  if (!files.length && !note) return null;
  return h(
    "section",
    { class: "previews", "aria-label": "What it writes" },
    files.map((each, index) => previewed(each, index === 0)),
    files.length > 0 &&
      h("p", { class: "preview-note" }, "Compared with your files when this card was shown."),
    note && h("p", { class: "preview-note" }, note),
  );
}

function previewed({ path, kind, lines, added, removed, note }, open) {
  const [first] = [added, removed].filter(Boolean);
  const unit = first === 1 ? "line" : "lines";
  const counts = [
    added && `${added} ${unit} added`,
    removed && `${removed}${added ? "" : ` ${unit}`} removed`,
  ].filter(Boolean);
  return h(
    "details",
    { class: "preview-file", open },
    h(
      "summary",
      {},
      h("span", { class: `file-kind file-${kind}` }, kind),
      " ",
      h("code", {}, visible(path)),
      counts.length > 0 && `: ${counts.join(", ")}`,
    ),
    // Where the only part begins is of no use to anybody.
    lines.length > 0 && diffLines(lines.slice(1), `What changes in ${path}`),
    note && h("p", { class: "preview-note" }, note),
  );
}

const diffLines = (lines, label) =>
  h(
    "ol",
    { class: "diff-lines", tabindex: "0", "aria-label": label },
    lines.map((line) =>
      SIGNS[line[0]]
        ? row({ what: SIGNS[line[0]], text: line.slice(1) })
        : h("li", { class: "diff-gap" }, visible(line)),
    ),
  );

const SIGNS = { "+": "added", "-": "removed", " ": "same" };

// The difference as the runtime made it, but for its first two lines, which name the two sides.
function difference({ diff, before, after }) {
  const all = diff ? diff.replace(/\n$/, "").split("\n") : [];
  const lines = all[0]?.startsWith("--- ") && all[1]?.startsWith("+++ ") ? all.slice(2) : all;
  if (!lines.length)
    return h(
      "p",
      { class: "file-digests" },
      "No text to compare. SHA-256: ",
      h("code", {}, before ?? "nothing"),
      " → ",
      h("code", {}, after ?? "nothing"),
    );
  return diffLines(lines, "What changed");
}

/** What became of the owner's files, each of which opens; null if nothing did. */
export function changedFiles({ files, work_item_id: id }) {
  if (!files?.length) return null;
  const more = files.slice(SHOWN);
  return h(
    "div",
    { class: "work-files-box" },
    files.length > 1 && h("p", { class: "work-files-count" }, counted(files)),
    h(
      "ul",
      { class: "work-files", "aria-label": "Files" },
      files
        .slice(0, SHOWN)
        .map(({ kind, path, taken }) =>
          h(
            "li",
            { class: taken ? "" : "file-left" },
            !taken && "not taken over: ",
            h("span", { class: `file-kind file-${kind}` }, kind),
            " ",
            fileOpener(id, path),
          ),
        ),
      more.length > 0 && h("li", {}, `and ${more.length} more: ${counted(more)}`),
    ),
  );
}

const KINDS = ["added", "changed", "removed"];

/** How many files were added, changed and removed. */
const counted = (files) =>
  KINDS.map((kind) => [kind, files.filter((file) => file.kind === kind).length])
    .filter(([, count]) => count)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(", ");
