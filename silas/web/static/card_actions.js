// @ts-check
// The buttons of every card: the recommended action first, alternatives next, the refusing one last.
// What the risk asks for comes between the first tap and the signature.
import { h, icon } from "/dom.js";

/**
 * The row of a card. `first` and each of `others` are `{label, run}`; `run` gives a promise. One
 * that `asks` something is given the words of the answer. `first` is null if it can only be refused,
 * and `note` says what else will be asked for.
 */
export function actionRow({
  hold,
  steps,
  title,
  first,
  others,
  refusal = "",
  note = /** @type {string | null} */ (null),
  busy = "Signing…",
}) {
  const row = h("div", { class: "card-actions" });
  const begin = () => row.replaceChildren(...firstRow().filter(Boolean));
  const work = (run) => {
    row.replaceChildren(h("p", { class: "card-busy", role: "status" }, busy));
    run().catch((problem) => {
      begin();
      row.prepend(h("p", { class: "card-problem", role: "alert" }, problem.message));
    });
  };
  const button = (label, className, listener) =>
    h("button", { type: "button", class: className, onclick: hold.guard(listener) }, label);
  const labelOf = (action) => (typeof action.label === "function" ? action.label() : action.label);
  function firstRow() {
    const last = others.length - 1;
    return [
      refusal && h("p", { class: "card-refusal", role: "alert" }, refusal),
      !refusal &&
        first &&
        button(labelOf(first), "primary", () =>
          steps.length > 1 && !first.simple?.() ? next() : work(first.run),
        ),
      !refusal && note && h("p", { class: "card-strong" }, icon("key"), note),
      h(
        "div",
        { class: `card-others others-${others.length}` },
        others.map(
          (each, index) =>
            (!refusal || index === last) &&
            button(labelOf(each), index === last ? "quiet decline" : "quiet", () =>
              each.asks ? inWords(each) : work(each.run),
            ),
        ),
      ),
    ];
  }
  function inWords(action) {
    const area = h("textarea", {
      rows: "3",
      maxlength: "8000",
      class: "card-words",
      "aria-label": action.asks,
      placeholder: "In your own words",
    });
    const send = button(labelOf(action), "primary", () => {
      const words = area.value.trim();
      if (words) work(() => action.run(words));
      else area.focus();
    });
    row.replaceChildren(
      h("p", { class: "card-ask" }, action.asks),
      area,
      send,
      button("Not yet", "quiet", begin),
    );
    area.focus();
  }
  function next() {
    hold.start();
    const label = labelOf(first);
    const step =
      steps[1] === "slide"
        ? slider(`Slide to ${label.toLowerCase()}`, hold, () => work(first.run))
        : button(`Yes: ${title}`, "primary confirm", () => work(first.run));
    row.replaceChildren(
      h("p", { class: "card-ask" }, `${label}?`),
      step,
      button("Not yet", "quiet", begin),
    );
    (step.querySelector("input") ?? step).focus();
  }
  begin();
  return { node: row, again: begin };
}

// A range that must be brought to its end; with the keyboard: the arrows, or End.
function slider(label, hold, done) {
  const input = h("input", {
    type: "range",
    min: "0",
    max: "100",
    value: "0",
    step: "1",
    class: "slide",
    "aria-label": label,
  });
  let finished = false;
  const finish = hold.guard(() => {
    if (finished || Number(input.value) < 100) return;
    finished = true;
    done();
  });
  input.addEventListener("input", () => input.style.setProperty("--at", `${input.value}%`));
  input.addEventListener("change", (event) => {
    if (Number(input.value) >= 97) input.value = "100";
    finish(event);
    if (!finished) {
      input.value = "0";
      input.style.setProperty("--at", "0%");
    }
  });
  return h("label", { class: "slide-box" }, h("span", { "aria-hidden": "true" }, label), input);
}
