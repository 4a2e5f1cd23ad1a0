// @ts-check
// Files for the next message: chosen, dropped or pasted, and brought to Silas before it is sent.
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { signedFetch } from "/session.js";
import { state } from "/state.js";
import { visible } from "/visible.js";

const ADDRESS = "/api/attachments";
const MOST_BYTES = 10 * 1024 * 1024;
const MOST_FILES = 8;
const TOO_MANY = `One message can have at most ${MOST_FILES} files. Send the others in another message.`;
const TOO_LARGE = "It is larger than 10 MB, the most that one file may have.";
const NO_ANSWER = "Silas does not answer. Remove it and attach it again.";
/** A pasted text of more characters becomes a file. */
export const LONG_TEXT = 5000;
const PASTED = "pasted-text.txt";
const IMAGES = ["png", "jpeg", "gif", "webp"];

/** A size as people say it. */
export function sizeWords(size) {
  if (size < 1000) return size === 1 ? "1 byte" : `${size} bytes`;
  const [unit, factor] = size < 1e6 ? ["kB", 1e3] : ["MB", 1e6];
  return `${(size / factor).toFixed(1).replace(".0", "")} ${unit}`;
}

/** What is said where somebody sends files and no words. */
export const wordsFor = (count) =>
  count === 1 ? "See the attached file." : "See the attached files.";

/** What a message says of its files. */
export const named = (files) => files.map(({ sha256, name }) => ({ sha256, name }));

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",", 2)[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/**
 * The line above the composer and its button. `changed()` is called whenever `ready()` may have
 * changed, `keep(text)` puts a pasted text into the composer and says whether it fits.
 */
export function attachments({ device, changed, keep, back }) {
  let entries = []; // { name, size, kept, problem, text }
  const list = h("ul", { class: "attached-list", "aria-label": "Attached files" });
  const told = h("p", { class: "sr", role: "status" });
  const node = h("div", { class: "composer-files", hidden: true }, list, told);
  const chooser = h("input", { type: "file", hidden: true, "aria-label": "Files to attach" });
  chooser.multiple = true;
  chooser.addEventListener("change", () => {
    take([...chooser.files]);
    chooser.value = "";
  });
  const choose = () => chooser.click();
  const button = h(
    "button",
    { type: "button", class: "attach", "aria-label": "Attach a file", onclick: choose },
    icon("attach"),
  );

  function take(files, text = null) {
    for (const file of files) add(file, text);
    back();
  }
  function add(file, text) {
    const entry = { name: file.name || "file", size: file.size, kept: null, problem: "", text };
    if (entries.filter((each) => !each.problem).length >= MOST_FILES) entry.problem = TOO_MANY;
    else if (file.size > MOST_BYTES) entry.problem = TOO_LARGE;
    else bring(entry, file);
    entries = [...entries, entry];
    told.textContent = entry.problem || `Attaching ${entry.name}`;
    draw();
  }
  async function bring(entry, file) {
    try {
      const content = await base64(file);
      const answer = await signedFetch(device, ADDRESS, { name: entry.name, content });
      entry.kept = await answerOf(answer, NO_ANSWER);
      entry.name = entry.kept.name;
      if (entries.includes(entry)) told.textContent = `${entry.name} is attached.`;
    } catch (problem) {
      entry.problem = problem.status ? problem.message : NO_ANSWER;
      told.textContent = entry.problem;
    }
    draw();
  }
  function remove(entry) {
    entries = entries.filter((each) => each !== entry);
    told.textContent = `${entry.name} was removed.`;
    draw();
    back();
  }
  function draw() {
    node.hidden = !entries.length;
    list.replaceChildren(...entries.map(row));
    changed();
  }
  function row(entry) {
    return h(
      "li",
      { class: `attached${entry.problem ? " refused" : ""}`, "data-kept": entry.kept?.sha256 },
      h("span", { class: "attached-name", dir: "auto" }, visible(entry.name)),
      h("span", { class: "attached-size" }, entry.problem || stateOf(entry)),
      entry.text !== null &&
        h(
          "button",
          { type: "button", class: "quiet small", onclick: () => asText(entry) },
          "Keep it as text",
        ),
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          "aria-label": `Remove ${entry.name}`,
          onclick: () => remove(entry),
        },
        icon("cross"),
      ),
    );
  }
  const stateOf = (entry) => (entry.kept ? sizeWords(entry.size) : "Attaching…");
  function asText(entry) {
    if (keep(entry.text)) remove(entry);
    else told.textContent = "It is too long for a message, so it stays a file.";
  }
  function hearPaste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (files.length) take(files);
    else if (text.length > LONG_TEXT) take([new File([text], PASTED)], text);
    else return;
    event.preventDefault();
  }
  return {
    node,
    button,
    chooser,
    choose,
    take,
    hearPaste,
    /** Whether everything that was attached is with Silas. */
    ready: () => entries.every((each) => each.kept || each.problem),
    value: () => entries.filter((each) => each.kept).map((each) => each.kept),
    clear: () => {
      entries = [];
      draw();
    },
  };
}

/** Let files be dropped here. */
export function droppable(node, take) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // children are entered and left, too
  const show = (by) => {
    depth = Math.max(0, depth + by);
    node.classList.toggle("dropping", depth > 0);
  };
  node.addEventListener("dragenter", (event) => hasFiles(event) && show(1));
  node.addEventListener("dragleave", (event) => hasFiles(event) && show(-1));
  node.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  node.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(-depth);
    take([...event.dataTransfer.files]);
  });
}

/** What is attached to a message: names to save the files by, and images small. */
export function attachedView(files) {
  if (!files?.length) return null;
  return h(
    "ul",
    { class: "attached-list sent", "aria-label": "Attached files" },
    files.map((file) => h("li", { class: "attached" }, file.size ? link(file) : gone(file))),
  );
}

function link(file) {
  const node = h("a", { class: "attached-link" });
  node.href = `${ADDRESS}/${file.sha256}/${encodeURIComponent(file.name)}`;
  node.download = file.name;
  if (IMAGES.includes(file.kind)) node.append(thumbnail(node.href));
  node.append(
    h("span", { class: "attached-name", dir: "auto" }, visible(file.name)),
    h("span", { class: "attached-size" }, sizeWords(file.size)),
  );
  return node;
}

function thumbnail(address) {
  const image = h("img", { class: "attached-image" });
  image.alt = "";
  // Files are given to a session, which is opened after the line to Silas.
  Promise.resolve(state.session).then(() => (image.src = address));
  image.addEventListener("error", () => image.remove());
  return image;
}

const gone = (file) => [
  h("span", { class: "attached-name", dir: "auto" }, visible(file.name)),
  h("span", { class: "attached-size" }, "not kept any more"),
];
