// @ts-check
// Notes: written down, changed, linked to what they are about; and everything that has some words.
import { h } from "/dom.js";
import { categoryOf, categorySelect, field, taskSelect, whenIn } from "/journal_desk.js";
import { visible } from "/visible.js";

const KIND_WORDS = {
  category: "category",
  task: "task",
  checklist: "checklist",
  checklist_item: "step",
  time_entry: "time",
  day_plan: "day",
  day_block: "block",
  rating: "rating",
  note: "note",
  link: "link",
};

/** The part; `desk` also has `open`, which shows a record. */
export function notesPart(data, desk) {
  return h(
    "div",
    { class: "journal-part" },
    addForm(data, desk),
    finder(desk),
    data.notes.length
      ? h(
          "ul",
          { class: "notes" },
          data.notes.map((each) => noteRow(each, data, desk)),
        )
      : h("p", { class: "journal-none" }, "No notes yet. The first one goes above."),
  );
}

const area = (text = "") => h("textarea", { rows: "3", maxlength: "20000" }, text);

function addForm(data, { change }) {
  const [text, category, about] = [area(), categorySelect(data), taskSelect(data, "Nothing")];
  const submit = async (event) => {
    event.preventDefault();
    if (!text.value.trim()) return text.focus();
    const said = {
      text: text.value.trim(),
      category_id: category.value || null,
      about_id: about.value || null,
    };
    if (await change("create_note", said)) text.value = "";
  };
  return h(
    "form",
    { class: "journal-form note-form", onsubmit: submit },
    field("New note", text),
    field("Category", category),
    field("About", about),
    h("button", { type: "submit", class: "primary" }, "Note it"),
  );
}

function noteRow(note, data, desk) {
  const meta = [whenIn(note.created_at, data), categoryOf(data, note.category_id)?.name]
    .filter(Boolean)
    .join(" · ");
  return h(
    "li",
    { class: "note" },
    h("p", { class: "note-text" }, visible(note.text)),
    h("p", { class: "note-meta" }, visible(meta)),
    links(note.links, desk),
    editing(note, data, desk),
  );
}

/** What a record is linked to, each to be looked at or taken off. */
export function links(found, { change, open }) {
  if (!found.length) return null;
  return h(
    "ul",
    { class: "note-links", "aria-label": "Linked to" },
    found.map((each) =>
      h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "quiet note-link", onclick: () => open(each.record_id) },
          visible(each.relation === "related" ? each.name : `${each.relation}: ${each.name}`),
        ),
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Take off the link to ${each.name}`,
            onclick: () => change("delete_record", { record_id: each.id }),
          },
          "×",
        ),
      ),
    ),
  );
}

function editing(note, data, desk) {
  const { change } = desk;
  const text = area(note.text);
  const task = taskSelect(data, "Choose a task");
  const save = (event) => {
    event.preventDefault();
    if (text.value.trim()) change("update_note", { note_id: note.id, text: text.value.trim() });
  };
  const join = (event) => {
    event.preventDefault();
    if (task.value) change("link_records", { from_id: note.id, to_id: task.value });
  };
  return h(
    "details",
    { class: "journal-more", "data-key": `change-${note.id}` },
    h("summary", {}, "Change"),
    h(
      "form",
      { class: "journal-form note-form", onsubmit: save },
      field("Text", text),
      h("button", { type: "submit", class: "primary" }, "Save"),
    ),
    h(
      "form",
      { class: "journal-form", onsubmit: join },
      field("Link to", task),
      h("button", { type: "submit" }, "Link"),
    ),
    h(
      "div",
      { class: "task-actions" },
      h(
        "button",
        { type: "button", class: "quiet", onclick: () => desk.open(note.id) },
        "How it came about",
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => change("delete_record", { record_id: note.id }),
        },
        "Delete",
      ),
    ),
  );
}

// Only what is asked for is looked up: no letter is sent before that.
function finder(desk) {
  const words = h("input", {
    type: "text",
    maxlength: "200",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  const found = h("div", { class: "found", role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    const wanted = words.value.trim();
    if (!wanted) return found.replaceChildren();
    try {
      const { records } = await desk.look(`/find/${encodeURIComponent(wanted)}`);
      found.replaceChildren(
        records.length
          ? h(
              "ul",
              { class: "found-list" },
              records.map((each) =>
                h(
                  "li",
                  {},
                  h(
                    "button",
                    { type: "button", class: "quiet", onclick: () => desk.open(each.id) },
                    h("span", { class: "found-kind" }, KIND_WORDS[each.kind] ?? each.kind),
                    visible(each.name.slice(0, 200)),
                  ),
                ),
              ),
            )
          : h("p", { class: "journal-none" }, "Nothing has these words."),
      );
    } catch (problem) {
      desk.tell(problem.message);
    }
  };
  return h(
    "details",
    { class: "journal-more", "data-key": "find" },
    h("summary", {}, "Find in the whole journal"),
    h(
      "form",
      { class: "journal-form", onsubmit: submit },
      field("Words", words),
      h("button", { type: "submit", class: "primary" }, "Find"),
    ),
    found,
  );
}
