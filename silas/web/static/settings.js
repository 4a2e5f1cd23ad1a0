// Settings: who thinks, what tells you something, where else you are let in.
import { h } from "/dom.js";
import { modelChoice, readSetup } from "/setup.js";
import { onChange, state } from "/state.js";
import { visible } from "/visible.js";

let installing = null; // the browser's own question, kept until somebody wants it

addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  installing = event;
});
addEventListener("appinstalled", () => {
  installing = null;
});

/** A dialog; `page` is what every view has at hand. */
export function settingsDialog(page) {
  const body = h("div", { class: "settings" });
  const node = h("dialog", { class: "dialog", "aria-label": "Settings" }, body);
  const close = h("div", { class: "dialog-actions" }, h("button", { type: "button", class: "quiet", onclick: () => node.close() }, "Close"));
  const overview = () => body.replaceChildren(...[h("h2", {}, "Settings"),
    row("Model", state.ready?.model ?? "None: the offline brain", "Change", choose),
    row("Devices", "Browsers that sign in your name", "Show", () => { node.close(); page.show("devices"); }),
    row("Notifications", notices(), mayAsk() && "Allow", allow),
    installing && row("App", "Silas in a window of its own", "Install", install),
    h("p", { class: "meta" }, `Silas ${state.ready?.version ?? ""}`), close].filter(Boolean));
  const choose = async () => {
    body.replaceChildren(h("h2", {}, "Who shall think?"), h("p", { class: "dialog-lead" }, "A model is asked first, and used only if it answers."), h("p", { class: "choice-note", role: "status" }, "Loading …"), close);
    try {
      const setup = await readSetup();
      body.replaceChild(modelChoice({ device: page.device, setup, done: overview }), body.children[2]);
    } catch (problem) {
      body.children[2].textContent = problem.message;
    }
  };
  const allow = async () => {
    await Notification.requestPermission();
    overview();
  };
  const install = async () => {
    const asked = installing;
    installing = null;
    await asked.prompt();
    overview();
  };
  onChange((what) => what === "ready" && node.open && !node.querySelector(".choice") && overview());
  return { node, show: (part) => { overview(); node.showModal(); if (part === "model") choose(); } };
}

const mayAsk = () => globalThis.Notification?.permission === "default";

function notices() {
  return { granted: "You are told when something waits, while this page is open.", denied: "The browser says no.", default: "Off" }[globalThis.Notification?.permission] ?? "This browser has none.";
}

function row(name, value, action, run) {
  return h("div", { class: "setting" }, h("div", { class: "setting-words" }, h("strong", {}, name), h("span", {}, visible(value))),
    action && h("button", { type: "button", class: "quiet", onclick: run }, action));
}
