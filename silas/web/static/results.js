// @ts-check
// What work gave: what commands printed, and the files it changed. Words of commands and of files are
// shown as quotations, as text, and never among Silas' own words. And what an answer wrote into the
// journal, taken back with a tap.
import { row } from "/card_diff.js";
import { h } from "/dom.js";
import { answerOf, nonce } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { visible } from "/visible.js";

/**
 * @typedef {import("../../../docs/wire").Message} Message
 * @typedef {import("../../../docs/wire").PrintedOutput} PrintedOutput
 * @typedef {{seq: number, title: string, success: boolean | null, error: string | null, text: string}} Call
 * @typedef {{path: string, kind: string, text: string | null, diff: string | null, note: string}} FileView
 */

const CANNOT = "This cannot be read right now.";
const SIGNS = { "+": "added", "-": "removed", " ": "same" };
/** What the reader has opened stays open when its message is drawn anew. @type {Map<string, Node[]>} */
const opened = new Map();
/** Shows what was read where it was drawn last. @type {Map<string, (nodes: Node[]) => void>} */
const drawn = new Map();

/** @param {string} id @param {string} [rest] */
async function read(id, rest = "") {
  const answer = await sessionFetch(`/api/work/${encodeURIComponent(id)}${rest}`).catch(() => null);
  if (!answer) throw new Error(CANNOT);
  return answerOf(answer, CANNOT);
}

/**
 * A button that opens something below it, once it was read, and closes it again.
 * @param {string} key @param {(string | Node | (string | Node)[])[]} label
 * @param {() => Promise<Node[]>} load
 */
function opening(key, label, load, className = "quiet small") {
  const place = h("div", { class: "opened" });
  const button = h(
    "button",
    { type: "button", class: className, "aria-expanded": String(opened.has(key)), onclick: toggle },
    ...label,
  );
  async function toggle() {
    if (opened.delete(key)) return show([]);
    button.disabled = true;
    try {
      const nodes = await load();
      opened.set(key, nodes);
      showHere(nodes);
    } catch (error) {
      showHere([h("p", { class: "opened-note", role: "alert" }, visible(error.message))]);
    }
    button.disabled = false;
  }
  /** What was asked for here may have been drawn anew while it was read. @param {Node[]} nodes */
  function showHere(nodes) {
    const latest = place.isConnected ? show : (drawn.get(key) ?? show);
    latest(nodes);
  }
  /** @param {Node[]} nodes */
  function show(nodes) {
    button.setAttribute("aria-expanded", String(opened.has(key)));
    place.replaceChildren(...nodes);
  }
  place.append(...(opened.get(key) ?? []));
  drawn.set(key, show);
  return [button, place];
}

/** What became of the changes that somebody took back here, by message. @type {Map<string, string>} */
const takenBack = new Map();

/** The text without the commands that undo it in a terminal: here is a button. @param {Message} message */
export function textOf({ text, journal_changes: ids = [] }) {
  return ids.reduce(
    (left, id) => left.replace(new RegExp(` Undo: \`[^\`\\n]* journal undo ${id}\`\\.`), ""),
    text,
  );
}

/** Takes back what an answer wrote into the journal. @param {Message} message */
export function undoView(message, device) {
  const id = message.message_id;
  if (!message.journal_changes?.length) return null;
  const note = h("span", { class: "opened-note", role: "status" }, takenBack.get(id) ?? "");
  const button = h("button", { type: "button", class: "chip", hidden: takenBack.has(id) }, "Undo");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      // The last one first: it may rest on those before it.
      for (const change of [...(message.journal_changes ?? [])].reverse())
        await takeBack(device, change);
      takenBack.set(id, "Undone.");
      button.hidden = true;
      note.textContent = "Undone.";
    } catch (problem) {
      button.disabled = false;
      note.textContent = problem.message;
    }
  });
  return h("div", { class: "chips" }, button, note);
}

async function takeBack(device, change) {
  const body = { arguments: { change_id: change }, operation_id: `page-${nonce()}` };
  const answer = await signedFetch(device, "/api/journal/undo_change", body).catch(() => null);
  if (!answer) throw new Error("Silas did not answer. Try again.");
  await answerOf(answer, "That did not work.");
}

/**
 * Takes back what the work did in accounts, whole or item by item, with what became of each.
 * @param {Message} message
 */
export function undoWorkView(message, device) {
  const id = message.work_item_id;
  if (!id || !message.undo_until) return null;
  const late = Date.now() >= Date.parse(message.undo_until);
  const whole = undoing(`work ${id}`, "Undo", late, () => takeBackCalls(device, id, {}));
  const items = message.undo_items ?? [];
  if (items.length < 2) return whole;
  const rows = items.map((each) => {
    const key = `work ${id} ${each.attempt} ${each.call}`;
    const wanted = { attempt: each.attempt, calls: [each.call] };
    const button = undoing(key, "Take back", late, () => takeBackCalls(device, id, wanted));
    return h("li", {}, visible(each.line), button);
  });
  const some = h(
    "details",
    { class: "undo-items" },
    h("summary", {}, `One of these ${items.length}`),
    h("ul", {}, rows),
  );
  return h("div", {}, whole, some);
}

/** Keeps here what leaves only after a while. @param {Message} message */
export function keepHereView(message, device) {
  const id = message.work_item_id;
  if (!id || !message.leaves_at) return null;
  const late = Date.now() >= Date.parse(message.leaves_at);
  return undoing(`keep ${id}`, "Keep it here", late, async () => {
    const path = `/api/approvals/${encodeURIComponent(id)}/revoke`;
    const answer = await signedFetch(device, path, {}).catch(() => null);
    if (!answer) throw new Error("Silas did not answer. Look before you try again.");
    const { stopped } = await answerOf(answer, "That did not work: it may have left already.");
    return stopped.length ? "It stays here. Nothing was sent." : "It has left already.";
  });
}

/** @param {object} wanted which calls; empty: all */
async function takeBackCalls(device, id, wanted) {
  const path = `/api/work/${encodeURIComponent(id)}/undo`;
  const answer = await signedFetch(device, path, wanted).catch(() => null);
  if (!answer) throw new Error("Silas did not answer. Look before you try again.");
  const { calls } = await answerOf(answer, "That did not work.");
  /** @type {string[]} */
  const told = calls.map(
    (/** @type {{tool: string, told: string}} */ each) => `${each.tool}: ${each.told}`,
  );
  // Ten times the same is said once.
  const counted = [...new Set(told)].map((each) => {
    const often = told.filter((other) => other === each).length;
    return often > 1 ? `${often} times ${each}` : each;
  });
  return counted.join("\n");
}

function undoing(key, label, late, takeBack) {
  const known = takenBack.get(key);
  const note = h("div", { class: "opened-note", role: "status" }, linesOf(known));
  const hidden = late || known !== undefined;
  const button = h("button", { type: "button", class: "chip", hidden }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const told = await takeBack();
      takenBack.set(key, told);
      button.hidden = true;
      note.replaceChildren(...linesOf(told));
    } catch (problem) {
      button.disabled = false;
      note.textContent = problem.message;
    }
  });
  return h("div", { class: "chips" }, button, note);
}

function linesOf(text = "") {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => h("div", {}, visible(line)));
}

/** What commands and checks printed, short; everything is one tap away. @param {Message} message */
export function printedView(message) {
  const id = message.work_item_id;
  if (!message.printed?.length || !id) return null;
  return h(
    "div",
    { class: "printed-list" },
    message.printed.map(printed),
    message.printed.some((each) => each.more || each.left_out) &&
      opening(`output ${message.message_id}`, ["Everything that was printed"], () =>
        everything(id),
      ),
  );
}

/** @param {PrintedOutput} output */
function printed(output) {
  const nothing = !output.first && !output.last;
  return h(
    "figure",
    { class: `printed${output.failed ? " printed-bad" : ""}` },
    caption(output.is_check ? "Check" : "$", output.title, output.error ?? ""),
    nothing
      ? h("p", { class: "opened-note" }, "It printed nothing.")
      : h(
          "pre",
          { class: "printed-text", tabindex: "0", "aria-label": `What ${output.title} printed` },
          visible(output.first ?? ""),
          output.left_out
            ? h("span", { class: "printed-gap" }, `… ${output.left_out} more lines …`)
            : "",
          visible(output.last ?? ""),
        ),
  );
}

/** @param {string} sign @param {string} title @param {string} error */
const caption = (sign, title, error) =>
  h(
    "figcaption",
    {},
    h("span", { class: "printed-sign" }, sign),
    " ",
    h("code", {}, visible(title)),
    error && h("span", { class: "printed-error" }, visible(error)),
  );

/** @param {string} id */
async function everything(id) {
  const work = await read(id);
  const calls = work.calls.map((/** @type {Call} */ call) =>
    h(
      "figure",
      { class: `printed${call.success === false ? " printed-bad" : ""}` },
      caption("$", call.title, call.error ?? ""),
      call.text &&
        h("pre", { class: "printed-text printed-long", tabindex: "0" }, visible(call.text)),
      work.cut.includes(call.seq) &&
        opening(`call ${id} ${work.attempt} ${call.seq}`, ["All of it"], async () => {
          const whole = await read(id, `/output/${work.attempt}/${call.seq}`);
          return [
            h("pre", { class: "printed-text printed-long", tabindex: "0" }, visible(whole.text)),
          ];
        }),
    ),
  );
  const checks = work.checks
    .filter((check) => check.output)
    .map((check) =>
      h(
        "figure",
        { class: `printed${check.passed ? "" : " printed-bad"}` },
        caption("Check", check.name, check.passed ? "" : check.reason),
        h("pre", { class: "printed-text printed-long", tabindex: "0" }, visible(check.output)),
      ),
    );
  const found = [...calls, ...checks];
  return found.length ? found : [h("p", { class: "opened-note" }, "Nothing was printed.")];
}

/** A line about work that opens what became of it. @param {string} id @param {string} key */
export const workOpener = (id, key, label) =>
  opening(key, [label], () => workDetails(id), "entry-open");

/**
 * Everything about one piece of work: how it stands, its checks, what it printed, its files.
 * @param {string} id
 */
export async function workDetails(id) {
  const work = await read(id);
  const state = [work.status.replace(/\.$/, ""), work.attempts].filter(Boolean).join(", ");
  return [
    h("p", { class: "opened-note" }, visible(state)),
    ...work.checks.map((check) =>
      h(
        "p",
        { class: "opened-note" },
        visible(`${check.name}: ${check.passed ? check.outcome || "passed" : check.reason}`),
      ),
    ),
    ...(await everything(id)),
    work.files.length > 0 &&
      h(
        "ul",
        { class: "found-files" },
        work.files.map((file) => h("li", {}, `${file.kind} `, fileOpener(id, file.path))),
      ),
  ].filter(Boolean);
}

/** The name of a file that opens it. @param {string} id @param {string} path */
export function fileOpener(id, path) {
  const at = path.split("/").map(encodeURIComponent).join("/");
  return opening(
    `file ${id} ${path}`,
    [h("code", {}, visible(path))],
    async () => fileNodes(await read(id, `/file/${at}`)),
    "file-open",
  );
}

/** @param {FileView} file */
function fileNodes(file) {
  const nodes = [];
  if (file.note) nodes.push(h("p", { class: "opened-note" }, visible(file.note)));
  if (file.kind === "changed" && file.diff) nodes.push(diffLines(file.diff));
  else if (file.text !== null)
    nodes.push(
      h(
        "pre",
        { class: "printed-text printed-long", tabindex: "0" },
        visible(file.text || "(empty)"),
      ),
    );
  else if (file.kind === "removed" && file.diff) nodes.push(diffLines(file.diff));
  return nodes.length ? nodes : [h("p", { class: "opened-note" }, "It was empty.")];
}

/** A unified difference, but for its first two lines, which name the two sides. @param {string} diff */
function diffLines(diff) {
  const lines = diff.split("\n").slice(2);
  return h(
    "ol",
    { class: "diff-lines diff-long", tabindex: "0", "aria-label": "What changed" },
    lines.map((line) =>
      SIGNS[line[0]]
        ? row({ what: SIGNS[line[0]], text: line.slice(1) })
        : h("li", { class: "diff-gap" }, visible(line)),
    ),
  );
}
