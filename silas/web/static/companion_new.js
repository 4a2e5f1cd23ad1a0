// @ts-check
// Three taps: what kind, which part of the journal, done.
import { h, icon } from "/dom.js";
import { makeDesk } from "/journal_desk.js";
import { visible } from "/visible.js";

/** The form; `desk` also has `go`. */
export function creation(data, desk) {
  const chosen = {
    kind: data.kinds.find(({ problem }) => !problem)?.kind ?? null,
    categories: new Set(data.categories.length === 1 ? [data.categories[0].id] : []),
  };
  const fresh = h("input", {
    type: "text",
    maxlength: 80,
    placeholder: data.categories.length ? "Another category" : "A category, such as gym",
    "aria-label": "A new category",
  });
  const named = h("input", {
    type: "text",
    maxlength: 60,
    placeholder: "Its name, if you like",
    "aria-label": "Its name",
  });
  const model = modelSelect(data.models);
  const make = h("button", { type: "submit", class: "primary" }, "Create companion");
  const form = h(
    "form",
    { class: "companion-new" },
    h(
      "button",
      { type: "button", class: "quiet back", onclick: () => desk.go({}) },
      icon("chevron", "back-icon"),
      "All companions",
    ),
    h(
      "fieldset",
      {},
      h("legend", {}, "What kind?"),
      data.kinds.map((kind) =>
        choice("radio", "kind", kind.kind, kind.display_name, kind.problem ?? kind.summary, {
          checked: kind.kind === chosen.kind,
          disabled: Boolean(kind.problem),
          onchange: () => {
            chosen.kind = kind.kind;
          },
        }),
      ),
    ),
    h(
      "fieldset",
      {},
      h("legend", {}, "What may it see?"),
      data.categories.map((category) =>
        choice("checkbox", "category", category.id, category.name, "", {
          checked: chosen.categories.has(category.id),
          onchange: (event) =>
            chosen.categories[event.target.checked ? "add" : "delete"](category.id),
        }),
      ),
      fresh,
      h("p", { class: "meta" }, "It sees these parts of your journal and no others."),
    ),
    h(
      "details",
      {},
      h("summary", {}, "More"),
      named,
      model,
      h(
        "p",
        { class: "meta" },
        "Without a model, fixed rules decide and nothing leaves this machine. With one, you are shown first what it is told.",
      ),
    ),
    make,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    make.disabled = true;
    const made =
      (await makeFresh(desk, chosen.categories, fresh)) &&
      (await desk.change("new", {
        kind: chosen.kind,
        category_ids: [...chosen.categories],
        display_name: named.value.trim() || null,
        model_id: model.value || null,
      }));
    make.disabled = false;
    if (made) desk.go({ agent: made.id });
  });
  return form;
}

// A category that was made is chosen from then on, so that a second try does not make it again.
async function makeFresh({ device, tell }, chosen, field) {
  const name = field.value.trim();
  if (!name) return true;
  const made = await makeDesk({ device, tell, done: () => {} }).change("create_category", { name });
  if (!made) return false;
  chosen.add(made.category_id);
  field.value = "";
  return true;
}

/** The models that there are, each with where it is; none is the first choice. */
export function modelSelect(models, current = null) {
  const options = models.map(({ model_id: id, address }) => [id, `${id} (${address})`]);
  if (current && !options.some(([id]) => id === current))
    options.push([current, `${current} (not configured any more)`]);
  const node = h(
    "select",
    { "aria-label": "Its model" },
    h("option", { value: "" }, "No model: fixed rules"),
    options.map(([id, label]) => h("option", { value: id }, visible(label))),
  );
  node.value = current ?? "";
  return node;
}

function choice(type, name, value, label, text, attributes) {
  return h(
    "label",
    { class: "companion-choice" },
    h("input", { type, name, value, ...attributes }),
    h("span", {}, h("strong", {}, visible(label)), text ? h("span", {}, visible(text)) : null),
  );
}
