// @ts-check
// The whole journal as a file: taken along, or one brought in after it was counted.
import { h } from "/dom.js";
import { field } from "/journal_desk.js";
import { typed } from "/program.js";
import { sessionFetch } from "/session.js";
import { visible } from "/visible.js";

const MOST_BYTES = 8 * 1024 * 1024;
const tooLarge = () =>
  `This file is larger than 8 MB. Take it in with \`${typed("journal import FILE")}\` in a terminal.`;
const UNREADABLE = "This file cannot be read, or Silas does not answer. Nothing was changed.";
// The answer may have been lost after the journal was written.
const NO_ANSWER = "Silas did not answer: look at the journal before you take the file in again.";
const KINDS = {
  category: ["category", "categories"],
  task: ["task", "tasks"],
  checklist: ["checklist", "checklists"],
  checklist_item: ["step", "steps"],
  time_entry: ["stretch of time", "stretches of time"],
  day_plan: ["day", "days"],
  day_block: ["block", "blocks"],
  rating: ["rating", "ratings"],
  note: ["note", "notes"],
  link: ["link", "links"],
};

/** The part. */
export function filesPart(desk) {
  return h("div", { class: "journal-part journal-files" }, takingAlong(), bringingIn(desk));
}

function takingAlong() {
  const told = h("p", { class: "journal-none", role: "status" });
  const button = h(
    "button",
    {
      type: "button",
      class: "primary",
      onclick: async () => {
        button.disabled = true;
        told.textContent = await download().then(
          () => "",
          () => "The journal cannot be read right now.",
        );
        button.disabled = false;
      },
    },
    "Download the journal",
  );
  return h(
    "section",
    {},
    h("h3", {}, "Export"),
    h(
      "p",
      {},
      "Everything in the journal, also what was deleted, in one file that Silas reads anywhere.",
    ),
    button,
    told,
  );
}

async function download() {
  const answer = await sessionFetch("/api/journal/export");
  if (!answer.ok) throw new Error();
  const link = h("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download =
    /filename="([\w.-]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ??
    "silas-journal.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

function bringingIn(desk) {
  const found = h("div", { class: "journal-brought", role: "status" });
  const file = h("input", { type: "file" });
  file.accept = ".json,application/json";
  let turn = 0; // only the file that was chosen last is told of
  const forget = () => {
    turn += 1;
    file.value = "";
    found.replaceChildren();
  };

  async function ask(text, apply) {
    const mine = ++turn;
    found.replaceChildren(
      h("p", { class: "journal-none" }, apply ? "It is taken in …" : "It is counted …"),
    );
    const shown = await text()
      .then((all) => desk.send("/import", { text: all, apply }))
      .then((counted) => (apply ? done(counted) : offer(counted, text)))
      .catch((problem) => [
        h(
          "p",
          { class: "journal-refused" },
          visible(problem.constructor === Error ? problem.message : apply ? NO_ANSWER : UNREADABLE),
        ),
      ]);
    if (mine === turn) found.replaceChildren(...shown);
  }

  function done(counted) {
    desk.done();
    file.value = "";
    return [h("p", {}, `Taken in: ${counted.new} new, ${counted.changed} changed.`)];
  }

  function offer(counted, text) {
    const total = `${counted.records} record${counted.records === 1 ? "" : "s"} in this file.`;
    if (!counted.new && !counted.changed)
      return [h("p", {}, `${total} Everything in it is here already.`)];
    return [
      h(
        "p",
        {},
        `${total} ${counted.new} would be new, ${counted.changed} would change. Nothing is taken in yet.`,
      ),
      h(
        "ul",
        { class: "journal-counted" },
        counted.kinds.map((each) => h("li", {}, kindLine(each))),
      ),
      h(
        "div",
        { class: "journal-choice" },
        h(
          "button",
          { type: "button", class: "primary", onclick: () => ask(text, true) },
          "Take it in",
        ),
        h("button", { type: "button", onclick: forget }, "Leave it"),
      ),
    ];
  }

  file.addEventListener("change", () => {
    const [chosen] = file.files;
    if (!chosen) return forget();
    if (chosen.size <= MOST_BYTES) return ask(() => chosen.text(), false);
    turn += 1;
    return found.replaceChildren(h("p", { class: "journal-refused" }, tooLarge()));
  });
  return h(
    "section",
    {},
    h("h3", {}, "Import"),
    h(
      "p",
      {},
      "What is in an export of this or another journal is added here. Where both have a record, the newer change stays. You see how much it is before anything happens.",
    ),
    field("An export of a journal", file),
    found,
  );
}

function kindLine({ kind, new: fresh, changed }) {
  const [one, many] = KINDS[kind] ?? [kind, kind];
  const count = (number, word) =>
    number ? `${number} ${number === 1 ? one : many} ${word}` : null;
  return [count(fresh, "new"), count(changed, "changed")].filter(Boolean).join(", ");
}
