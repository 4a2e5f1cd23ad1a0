// @ts-check
// The first run: welcome, a model, a name, done. Four taps, and each of them can be left out.
import { h, icon } from "/dom.js";
import { finishSetup, modelChoice } from "/setup.js";
import { changed, state } from "/state.js";
import { visible } from "/visible.js";

const STEPS = ["Welcome", "Model", "Name", "Done"];
const MOST_CHIPS = 3;

/** Walk through it, over the page; `page` is what every view has at hand. */
export function firstRun(page, setup) {
  const dots = h(
    "ol",
    { class: "steps", "aria-label": "Steps" },
    STEPS.map((name) => h("li", {}, h("span", { class: "sr" }, name))),
  );
  const body = h("div", { class: "first-body" });
  const skip = h("button", { type: "button", class: "quiet" }, "Skip");
  const node = h(
    "dialog",
    { class: "first", "aria-label": "First steps" },
    h("div", { class: "first-top" }, dots, skip),
    body,
  );
  let name = "";
  let isOver = false;
  const end = async (said) => {
    if (isOver) return;
    isOver = true;
    node.close();
    node.remove();
    await finishSetup(page.device, name).catch(() => {});
    if (name) {
      state.setup = { ...state.setup, name };
      changed("setup");
    }
    if (said) page.say(said);
    page.close();
  };
  const go = (at) => {
    [...dots.children].forEach((dot, index) =>
      index === at ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current"),
    );
    body.replaceChildren(...[welcome, model, nameStep, done][at](go));
    (body.querySelector("[data-first]") ?? body.querySelector("button, input"))?.focus();
  };
  const model = (next) => [
    h("h2", {}, "Which model should I use?"),
    h("p", {}, "I try it first, and use it only if it answers."),
    modelChoice({ device: page.device, setup, done: () => next(2) }),
  ];
  const nameStep = (next) => {
    const input = h("input", {
      id: "first-name",
      maxlength: "80",
      autocomplete: "given-name",
      "data-first": "",
    });
    const submit = (event) => {
      event.preventDefault();
      name = input.value.trim();
      next(3);
    };
    return [
      h("h2", {}, "What should I call you?"),
      h(
        "form",
        { class: "fields", onsubmit: submit },
        h("label", { for: "first-name" }, "Your name (you can leave it out)"),
        input,
        h("button", { type: "submit", class: "primary" }, "Continue"),
      ),
    ];
  };
  const done = () => [
    icon("check", "big"),
    h("h2", {}, name ? ["Ready, ", visible(name), "."] : "Ready."),
    h(
      "p",
      {},
      "Ask for something. You see the plan first, and nothing happens before you say yes.",
    ),
    h(
      "div",
      { class: "chips" },
      (state.ready?.chips ?? [])
        .slice(0, MOST_CHIPS)
        .map((text) =>
          h("button", { type: "button", class: "chip", onclick: () => end(text) }, visible(text)),
        ),
    ),
    h(
      "button",
      { type: "button", class: "primary", "data-first": "", onclick: () => end() },
      "Start",
    ),
  ];
  skip.addEventListener("click", () => end());
  node.addEventListener("cancel", () => end());
  document.body.append(node);
  node.showModal();
  go(0);
}

function welcome(next) {
  return [
    icon("shield", "big"),
    h("h2", {}, "Hello, I am Silas."),
    h(
      "ol",
      { class: "promise" },
      h("li", {}, h("strong", {}, "I plan."), " You see exactly what I would do."),
      h("li", {}, h("strong", {}, "You approve."), " Only your key, in this browser, can say yes."),
      h(
        "li",
        {},
        h("strong", {}, "I act, and a check decides."),
        " I never call my own work done.",
      ),
    ),
    h(
      "button",
      { type: "button", class: "primary", "data-first": "", onclick: () => next(1) },
      "Begin",
    ),
  ];
}
