// @ts-check
// The frame around the surfaces: the line on top, the tabs, notices.
import { stopButton } from "/companions.js";
import { h, icon } from "/dom.js";
import { onChange, state } from "/state.js";

/** Wide enough for the conversation and the cards side by side. */
export const DESK = "(min-width: 900px)";
const CONNECTION_WORDS = {
  connecting: "Connecting…",
  open: "Connected",
  waiting: "Not connected. Trying again…",
  revoked: "Not paired",
};
const NOTICE_MILLISECONDS = 6000;

/** The frame with a view of each surface in it; `page` is what the views get at hand. */
export function makeShell(surfaces, page, dialogs) {
  const views = new Map();
  const toast = h("div", { class: "toast", role: "status" });
  const main = h("main", { class: "surfaces" });
  const node = h(
    "div",
    { class: "shell" },
    header(surfaces, page),
    main,
    tabs(surfaces, page),
    toast,
    dialogs,
  );
  for (const { name, make, over } of surfaces) {
    const view = make(page);
    view.node.classList.toggle("over", Boolean(over));
    view.node.dataset.surface = name;
    views.set(name, view);
    main.append(view.node);
  }

  function choose(surface) {
    if (!views.has(surface)) return;
    const before = node.dataset.surface;
    node.dataset.surface = surface;
    for (const { name } of surfaces)
      views.get(name).node.toggleAttribute("data-current", name === surface);
    for (const tab of node.querySelectorAll("[data-tab]")) {
      if (tab.dataset.tab === surface) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    const view = views.get(surface);
    view.opened?.();
    if (surface !== "stream") view.node.focus({ preventScroll: true });
    else if (before && before !== "stream" && matchMedia(DESK).matches) view.focus();
  }

  document.addEventListener("keydown", (event) => {
    const current = surfaces.find(({ name }) => name === node.dataset.surface);
    if (event.key === "Escape" && current?.over && !node.querySelector("dialog[open]"))
      choose("stream");
    if (event.altKey && /^[1-9]$/.test(event.key) && surfaces[Number(event.key) - 1]) {
      event.preventDefault();
      choose(surfaces[Number(event.key) - 1].name);
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) for (const view of views.values()) view.woken?.();
  });
  onChange((what) => {
    if (what === "connection" || what === "ready") reflect(node);
    if (what === "cards") badges(node, surfaces);
  });
  badges(node, surfaces);
  reflect(node);
  choose("stream");
  return { node, choose, view: (name) => views.get(name), tell: (text) => tell(toast, text) };
}

function header(surfaces, page) {
  return h(
    "header",
    { class: "top" },
    h("h1", { class: "word" }, "Silas"),
    h(
      "span",
      { class: "line", role: "status", "data-line": "" },
      h("span", { class: "line-dot", "aria-hidden": "true" }),
      h("span", { class: "line-word" }, CONNECTION_WORDS.connecting),
    ),
    h("span", { class: "brain", "data-brain": "" }),
    h(
      "nav",
      { class: "top-nav", "aria-label": "More" },
      // First, since it comes and goes and changes its word: nothing moves away under a finger.
      stopButton(page),
      surfaces
        .filter(({ over }) => over)
        .map(({ name, label }) =>
          h(
            "button",
            {
              type: "button",
              class: "quiet wide-only",
              "data-tab": name,
              onclick: () => page.show(name),
            },
            icon(name),
            label,
          ),
        ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Devices",
          onclick: () => page.show("devices"),
        },
        icon("device"),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Settings",
          onclick: () => page.show("settings"),
        },
        icon("settings"),
      ),
    ),
  );
}

function tabs(surfaces, page) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Surfaces" },
    surfaces
      .filter(({ away }) => !away)
      .map(({ name, label, waiting }) =>
        h(
          "button",
          { type: "button", class: "tab", "data-tab": name, onclick: () => page.show(name) },
          icon(name),
          h("span", {}, label),
          waiting && h("span", { class: "badge", "data-badge": name, hidden: true }),
        ),
      ),
  );
}

function badges(node, surfaces) {
  let sum = 0;
  for (const { name, waiting } of surfaces) {
    if (!waiting) continue;
    const count = waiting();
    const mark = node.querySelector(`[data-badge="${name}"]`);
    mark.hidden = count === 0;
    mark.textContent = String(count);
    mark.setAttribute("aria-label", `${count} waiting`);
    sum += count;
  }
  document.title = sum ? `(${sum}) Silas` : "Silas";
}

function reflect(node) {
  const line = node.querySelector("[data-line]");
  line.dataset.state = state.connection;
  line.querySelector(".line-word").textContent = CONNECTION_WORDS[state.connection];
  node.querySelector("[data-brain]").textContent = state.ready
    ? (state.ready.model ?? "no model")
    : "";
}

function tell(toast, text) {
  toast.textContent = text;
  toast.dataset.shown = "";
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => delete toast.dataset.shown, NOTICE_MILLISECONDS);
}
