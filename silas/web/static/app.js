// @ts-check
// The page: who we are, the surfaces, and the line to Silas.
import { activityView } from "/activity.js";
import { companionsView } from "/companions.js";
import { Connection } from "/connection.js";
import { connectionsView } from "/connections.js";
import { conversationsDialog } from "/conversations.js";
import { decide } from "/deciding.js";
import { devicesDialog } from "/devices.js";
import { h } from "/dom.js";
import { journalView } from "/journal.js";
import { loadDevice } from "/keys.js";
import { memoryView } from "/memory.js";
import { firstRun } from "/onboarding.js";
import { isLocked, lockedView, pairingView, takeCode } from "/pairing.js";
import { reviewView } from "/review.js";
import { openSessions } from "/session.js";
import { settingsDialog } from "/settings.js";
import { readSetup } from "/setup.js";
import { DESK, makeShell } from "/shell.js";
import { serversView } from "/servers.js";
import { skillsView } from "/skills.js";
import { answeringHere, changed, onChange, openCards, state, waiting } from "/state.js";
import { streamView } from "/stream.js";
import { visitorsDialog } from "/visitors.js";
import { programsDialog } from "/programs.js";

// The surfaces, in the order of their tabs; another one is one more line here. `make(page)` gives
// its view: a `node`, and what happens when it is `opened`. On a desk, the first two are side by
// side, and those that lie `over` slide in. What is looked at now and then is `away` from the tabs of
// a phone: Settings opens it.
const SURFACES = [
  { name: "stream", label: "Stream", make: streamView },
  { name: "review", label: "Review", make: reviewView, waiting: () => waiting().length },
  { name: "activity", label: "Activity", make: activityView, over: true },
  { name: "journal", label: "Journal", make: journalView, over: true },
  { name: "companions", label: "Companions", make: companionsView, over: true },
  { name: "memory", label: "Memory", make: memoryView, over: true, away: true },
  { name: "skills", label: "Skills", make: skillsView, over: true, away: true },
  { name: "servers", label: "Tool servers", make: serversView, over: true, away: true },
  { name: "connections", label: "Connections", make: connectionsView, over: true, away: true },
];

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const policy = globalThis.trustedTypes?.createPolicy("silas", {
  createScriptURL: (address) => {
    if (address !== "/sw.js") throw new TypeError("only the service worker");
    return address;
  },
});

// A link that is opened where the page is open already changes only the fragment.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#pair=")) arrive();
});

async function begin() {
  await arrive();
  navigator.serviceWorker
    ?.register(policy ? policy.createScriptURL("/sw.js") : "/sw.js")
    .catch(() => {});
}

async function arrive() {
  const code = takeCode();
  const [device, locked] = await Promise.all([loadDevice(), isLocked()]);
  root.className = "";
  if (locked) unlockFirst({ code, device });
  else if (device && !code) run(device);
  else enter({ code, revoked: false });
}

function unlockFirst({ code, device }) {
  // A page that starts anew holds nothing of what was there before.
  root.replaceChildren(lockedView({ code, device, done: () => location.reload() }));
  /** @type {HTMLElement | null} */ (root.querySelector("input"))?.focus();
}

function enter({ code, revoked }) {
  root.replaceChildren(pairingView({ code, revoked, done: run }));
  root.querySelector("button")?.focus();
}

function run(device) {
  const connection = new Connection(device);
  // What every view gets at hand.
  const page = {
    device,
    say: (text, folder = null, files = []) =>
      connection.say(text, folder, files, state.conversation ?? undefined),
    send: (frame) => connection.send(frame),
    reveal: (hit) => shell.view("stream").reveal(hit),
    fill: (text) => shell.view("stream").fill(text),
    newConversation: () => {
      conversations.begin();
      shell.choose("stream");
      shell.view("stream").focus();
    },
    stop: () => {
      for (const { trace_id } of answeringHere()) connection.send({ type: "stop", trace_id });
    },
    show: (surface, card) => {
      if (card) shell.view("review").prefer(card);
      if (dialogs[surface]) dialogs[surface].show();
      else shell.choose(surface);
    },
    close: () => shell.choose("stream"),
    stopCompanions: () => shell.view("companions").stop(),
    decide: async (card, verdict, plans, changes) => {
      await decide({ connection, device, card, verdict, plans, changes });
      // On a phone one sees either: after the last yes, how it is done.
      const others = openCards().some((each) => each.request_id !== card.request_id);
      if (verdict === "approved" && !others && !matchMedia(DESK).matches) shell.choose("stream");
    },
  };
  const settings = settingsDialog(page);
  const conversations = conversationsDialog(page);
  const dialogs = {
    conversations,
    devices: devicesDialog(device),
    visitors: visitorsDialog(page),
    programs: programsDialog(page),
    settings,
    model: { show: () => settings.show("model") },
  };
  const shell = makeShell(SURFACES, page, [
    dialogs.devices.node,
    dialogs.visitors.node,
    dialogs.programs.node,
    settings.node,
    conversations.node,
  ]);
  onChange((what, detail) => {
    if (what === "connection" && state.connection === "revoked")
      enter({ code: null, revoked: true });
    if (what === "connection" && state.connection === "waiting") lookForLock(device);
    if (what === "cards") notify(state.cards.get(detail));
    if (what === "messages" && detail) remind(detail);
    if (what === "error") {
      shell.tell(detail.message);
      shell.view("review").again();
    }
  });
  root.replaceChildren(shell.node);
  openSessions(connection, () => welcome(page));
  connection.open();
  if (matchMedia(DESK).matches) shell.view("stream").focus();
}

// A server that went away may have come back without its passphrase.
async function lookForLock(device) {
  if ((await isLocked()) && !root.querySelector(".gate")) unlockFirst({ code: null, device });
}

// Whoever is here for the first time is shown around, once.
async function welcome(page) {
  if (state.setup) return;
  try {
    state.setup = await readSetup();
  } catch {
    return; // next time
  }
  changed("setup");
  if (!state.setup.finished && !state.unsent.size) firstRun(page, state.setup);
}

// Whoever looks elsewhere is told that something waits; what it is stays in here.
function notify(card) {
  if (
    card?.state !== "open" ||
    !document.hidden ||
    globalThis.Notification?.permission !== "granted"
  )
    return;
  new Notification("Silas", {
    body: "Something waits for your decision.",
    tag: card.request_id,
    icon: "/icon-192.png",
  });
}

// A reminder is what the owner wished to be told, so it says what it is about.
function remind(message) {
  const isNew = message.sender === "silas" && message.message_id.startsWith("reminder.");
  if (!isNew || !document.hidden || globalThis.Notification?.permission !== "granted") return;
  new Notification("Silas", { body: message.text, tag: message.message_id, icon: "/icon-192.png" });
}

begin().catch((problem) => {
  root.replaceChildren(
    h(
      "main",
      { class: "gate" },
      h("p", { role: "alert" }, `This page could not start: ${problem.message}`),
    ),
  );
});
