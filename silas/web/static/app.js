// The page: who we are, the three surfaces, and the line to Silas.
import { activityView } from "/activity.js";
import { Connection } from "/connection.js";
import { devicesDialog } from "/devices.js";
import { h, icon } from "/dom.js";
import { loadDevice, sign } from "/keys.js";
import { pairingView, takeCode } from "/pairing.js";
import { reviewView } from "/review.js";
import { onChange, openCards, state } from "/state.js";
import { streamView } from "/stream.js";

const root = document.getElementById("app");
const CONNECTION_WORDS = { connecting: "Connecting…", open: "Connected", waiting: "Not connected. Trying again…", revoked: "Not paired" };
const TABS = [["stream", "Stream"], ["review", "Review"], ["activity", "Activity"]];
const policy = globalThis.trustedTypes?.createPolicy("silas", {
  createScriptURL: (address) => {
    if (address !== "/sw.js") throw new TypeError("only the service worker");
    return address;
  },
});

// A link that is opened where the page is open already changes only the fragment.
addEventListener("hashchange", () => {
  const code = takeCode();
  if (code) enter({ code, revoked: false });
});

async function begin() {
  const code = takeCode();
  const device = await loadDevice();
  root.className = "";
  if (device && !code) run(device);
  else enter({ code, revoked: false });
  navigator.serviceWorker?.register(policy ? policy.createScriptURL("/sw.js") : "/sw.js").catch(() => {});
}

function enter({ code, revoked }) {
  root.replaceChildren(pairingView({ code, revoked, done: run }));
  root.querySelector("button")?.focus();
}

function run(device) {
  const connection = new Connection(device);
  const dialog = devicesDialog(device);
  const show = (surface, card) => {
    if (card) review.prefer(card);
    if (surface === "devices") dialog.show();
    else choose(surface);
  };
  const stream = streamView({ say: (text) => connection.say(text), show });
  const review = reviewView({ decide: (card, verdict, plans) => decide(connection, device, card, verdict, plans, stream) });
  const activity = activityView({ close: () => choose("stream") });
  const toast = h("div", { class: "toast", role: "status" });
  const shell = h("div", { class: "shell", "data-surface": "stream" },
    header(show, dialog), h("main", { class: "surfaces" }, stream.node, review.node, activity.node), tabs(show), toast, dialog.node);

  function choose(surface) {
    const before = shell.dataset.surface;
    shell.dataset.surface = surface;
    for (const tab of shell.querySelectorAll("[data-tab]")) {
      if (tab.dataset.tab === surface) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    if (surface === "review") {
      review.arm();
      review.node.focus({ preventScroll: true });
    }
    if (surface === "activity") {
      connection.send({ type: "activity_request", count: 60 });
      activity.node.focus({ preventScroll: true });
    }
    if (surface === "stream" && before !== "stream" && matchMedia("(min-width: 900px)").matches) stream.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && shell.dataset.surface === "activity") choose("stream");
    if (event.altKey && ["1", "2", "3"].includes(event.key)) choose(TABS[Number(event.key) - 1][0]);
  });
  document.addEventListener("visibilitychange", () => document.hidden || review.arm());
  onChange((what, detail) => {
    if (what === "connection" || what === "ready") reflect(shell);
    if (what === "ready") openSession(state.ready.ticket);
    if (what === "cards") {
      badge(shell);
      notify(state.cards.get(detail));
    }
    if (what === "error") {
      tell(toast, detail.message);
      review.again();
    }
    if (what === "messages" && shell.dataset.surface === "activity") connection.send({ type: "activity_request", count: 60 });
  });
  root.replaceChildren(shell);
  badge(shell);
  connection.open();
  if (matchMedia("(min-width: 900px)").matches) stream.focus();
}

// The session is for what goes over HTTP; the conversation does not need it.
function openSession(ticket) {
  return fetch("/api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket }) }).catch(() => {});
}

async function decide(connection, device, card, verdict, plans, stream) {
  const hashes = Object.fromEntries(plans.map(({ id, hash }) => [id, hash]));
  const decision = { verdict, approval_strength: "tap", conditions: {} };
  const signature = await sign(device, { type: `${card.kind === "call" ? "call" : "card"}_decision`, card_id: card.request_id, plan_hashes: hashes, decision });
  if (!connection.send({ type: "approval_response", request_id: card.request_id, verdict, signature })) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
  if (verdict === "edit_requested") {
    const asked = state.messages.find((each) => each.sender === "owner" && each.trace_id === card.trace_id);
    document.querySelector('[data-tab="stream"]')?.click();
    stream.fill(asked?.text ?? "");
  }
}

function header(show, dialog) {
  return h("header", { class: "top" },
    h("h1", { class: "word" }, "Silas"),
    h("span", { class: "line", role: "status", "data-line": "" }, h("span", { class: "line-dot", "aria-hidden": "true" }), h("span", { class: "line-word" }, CONNECTION_WORDS.connecting)),
    h("span", { class: "brain", "data-brain": "" }),
    h("nav", { class: "top-nav", "aria-label": "More" },
      h("button", { type: "button", class: "quiet wide-only", "data-tab": "activity", onclick: () => show("activity") }, icon("activity"), "Activity"),
      h("button", { type: "button", class: "quiet", "aria-label": "Devices", onclick: () => dialog.show() }, icon("device"))));
}

function tabs(show) {
  return h("nav", { class: "tabs", "aria-label": "Surfaces" }, TABS.map(([name, label]) =>
    h("button", { type: "button", class: "tab", "data-tab": name, "aria-current": name === "stream" ? "page" : null, onclick: () => show(name) },
      icon(name), h("span", {}, label), name === "review" && h("span", { class: "badge", "data-badge": "", hidden: true }))));
}

function badge(shell) {
  const count = openCards().length;
  const mark = shell.querySelector("[data-badge]");
  mark.hidden = count === 0;
  mark.textContent = String(count);
  mark.setAttribute("aria-label", `${count} waiting`);
  document.title = count ? `(${count}) Silas` : "Silas";
}

// Whoever looks elsewhere is told that something waits; what it is stays in here.
function notify(card) {
  if (card?.state !== "open" || !document.hidden || globalThis.Notification?.permission !== "granted") return;
  new Notification("Silas", { body: "A plan waits for your decision.", tag: card.request_id, icon: "/icon-192.png" });
}

function reflect(shell) {
  const line = shell.querySelector("[data-line]");
  line.dataset.state = state.connection;
  line.querySelector(".line-word").textContent = CONNECTION_WORDS[state.connection];
  shell.querySelector("[data-brain]").textContent = state.ready ? state.ready.model ?? "offline brain" : "";
  if (state.connection === "revoked") enter({ code: null, revoked: true });
}

function tell(toast, text) {
  toast.textContent = text;
  toast.dataset.shown = "";
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => delete toast.dataset.shown, 6000);
}

begin().catch((problem) => {
  root.replaceChildren(h("main", { class: "gate" }, h("p", { role: "alert" }, `This page could not start: ${problem.message}`)));
});
