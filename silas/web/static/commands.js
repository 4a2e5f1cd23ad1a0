// @ts-check
// What begins with a slash: a list while it is typed, and what each of them does.
import { h } from "/dom.js";

const COMMANDS = [
  { name: "/review", text: "Decide what waits for you", run: ({ show }) => show("review") },
  { name: "/new", text: "Begin a new conversation", run: ({ begin }) => begin() },
  {
    name: "/search",
    text: "Find something in conversations and work",
    run: ({ show }) => show("conversations"),
  },
  { name: "/activity", text: "See what happened", run: ({ show }) => show("activity") },
  { name: "/companions", text: "See your companions", run: ({ show }) => show("companions") },
  {
    name: "/did",
    text: "What did you do while I was away?",
    run: ({ say }) => say("What did you do?"),
  },
  { name: "/help", text: "What can you do?", run: ({ say }) => say("What can you do?") },
  { name: "/attach", text: "Send a file along", run: ({ attach }) => attach() },
  { name: "/folder", text: "Choose the folder to work in", run: ({ pickFolder }) => pickFolder() },
  { name: "/remember", text: "Keep something in mind", run: ({ fill }) => fill("Remember that ") },
  { name: "/model", text: "Choose who thinks", run: ({ show }) => show("model") },
  { name: "/devices", text: "See which browsers sign for you", run: ({ show }) => show("devices") },
  {
    name: "/visitors",
    text: "See who talks to Silas with a link",
    run: ({ show }) => show("visitors"),
  },
  { name: "/settings", text: "Model, notifications, app", run: ({ show }) => show("settings") },
];

/** The list above the composer; `page` has `say`, `show` and `fill`. */
export function commandList(input, page) {
  const node = h("ul", {
    id: "commands",
    class: "commands",
    role: "listbox",
    "aria-label": "Commands",
    tabindex: "0", // where it does not fit, it scrolls: by keyboard, too
    hidden: true,
  });
  let found = [];
  let at = 0;

  function reflect() {
    const typed = input.value.trimEnd();
    found = /^\/\w*$/.test(typed) ? COMMANDS.filter(({ name }) => name.startsWith(typed)) : [];
    at = 0;
    draw();
  }
  function draw() {
    node.hidden = !found.length;
    node.replaceChildren(...found.map((command, index) => row(command, index)));
    if (found.length) {
      input.setAttribute("aria-activedescendant", `command-${at}`);
      node.children[at].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }
  function row(command, index) {
    const line = h(
      "li",
      { id: `command-${index}`, role: "option", "aria-selected": String(index === at) },
      h("strong", {}, command.name),
      h("span", {}, command.text),
    );
    line.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the composer keeps the focus
      pick(command);
    });
    return line;
  }
  function pick(command) {
    page.fill("");
    command.run(page);
  }
  /** Whether the key was for the list. */
  function hear(event) {
    if (!found.length || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === "Escape") {
      found = [];
      draw();
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey)) pick(found[at]);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
  /** Do what this says, if it is a command. */
  function run(text) {
    const command = COMMANDS.find(({ name }) => name === text);
    if (command) pick(command);
    return Boolean(command);
  }
  return { node, reflect, hear, run };
}
