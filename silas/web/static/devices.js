// @ts-check
// The owner's devices: seen, let in and ended here.
import { qrCode } from "/charts.js";
import { h } from "/dom.js";
import { answerOf } from "/keys.js";
import { passkeySection } from "/passkeys.js";
import { typed } from "/program.js";
import { sessionFetch, signedFetch } from "/session.js";
import { visible } from "/visible.js";

// Asked for here, with a tap, and never by itself.
function notifying() {
  if (globalThis.Notification?.permission !== "default") return null;
  const button = h("button", { type: "button", class: "quiet" }, "Notify me when a plan waits");
  button.addEventListener("click", async () => {
    const answer = await Notification.requestPermission();
    button.textContent = answer === "granted" ? "You will be told" : "The browser says no";
    button.disabled = true;
  });
  return button;
}

const HERE = ["127.0.0.1", "localhost", "[::1]"];

// A phone is let in from the machine where Silas runs: elsewhere a terminal of that machine does it.
function phoneSection(device) {
  const place = h("div", { class: "phone", "aria-live": "polite" });
  const button = h("button", { type: "button", class: "primary small" }, "Pair a phone");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const answer = await signedFetch(device, "/api/devices/invite", {});
      place.replaceChildren(...invitation(await answerOf(answer, "That did not work.")));
    } catch (error) {
      place.replaceChildren(h("p", { class: "problem" }, error.message));
    }
    button.disabled = false;
  });
  return {
    node: HERE.includes(location.hostname) ? h("div", {}, button, place) : null,
    forget: () => place.replaceChildren(),
  };
}

function invitation({ phone, missing }) {
  if (!phone) return [h("p", { class: "dialog-note" }, missing)];
  return [
    qrCode(phone.qr, "QR code of the link that pairs a phone"),
    h(
      "p",
      { class: "dialog-note" },
      "Point the phone's camera at it. It lets one device in, within ten minutes.",
      phone.needs_token && " The phone also asks for the access token of the settings.",
    ),
    h("p", { class: "meta" }, h("code", {}, phone.link)),
  ];
}

/** A dialog that lists the devices. */
export function devicesDialog(device) {
  const list = h("ul", { class: "devices" });
  const note = h("p", { class: "dialog-note", role: "status" });
  const passkeys = passkeySection(device);
  const phone = phoneSection(device);
  const node = h(
    "dialog",
    { class: "dialog", "aria-label": "Devices" },
    h("h2", {}, "Devices"),
    h(
      "p",
      { class: "dialog-lead" },
      "Each holds a key that signs in your name. Pair another one with ",
      h("code", {}, typed("devices pair")),
      ".",
    ),
    list,
    note,
    phone.node,
    passkeys.node,
    h(
      "div",
      { class: "dialog-actions" },
      notifying(),
      h("button", { type: "button", class: "quiet", onclick: () => node.close() }, "Close"),
    ),
  );
  const draw = async () => {
    const answer = await sessionFetch("/api/devices");
    if (!answer.ok) {
      note.textContent = "The list cannot be read right now.";
      return;
    }
    list.replaceChildren(...(await answer.json()).map((each) => row(each)));
  };
  const row = (each) =>
    h(
      "li",
      {},
      h(
        "div",
        {},
        h("strong", {}, visible(each.name)),
        each.this && h("span", { class: "tag" }, "this one"),
        h(
          "p",
          { class: "meta" },
          `${each.device_id} · since ${new Date(each.enrolled_at).toLocaleDateString()}`,
        ),
      ),
      ending(each),
    );
  // Twice, because it cannot be taken back.
  const ending = (each) => {
    const button = h(
      "button",
      { type: "button", class: "quiet decline" },
      each.this ? "Unpair" : "Revoke",
    );
    button.addEventListener("click", () => {
      if (button.dataset.sure) return end(each);
      button.dataset.sure = "yes";
      button.textContent = "Really? For good";
    });
    return button;
  };
  const end = async (each) => {
    const answer = await signedFetch(device, `/api/devices/${each.device_id}/revoke`, {});
    note.textContent = answer.ok ? `${each.name} is revoked.` : "That did not work.";
    if (!each.this) await draw();
  };
  return {
    node,
    show: () => {
      phone.forget(); // a code that was shown an hour ago lets nobody in
      node.showModal();
      draw();
      passkeys.draw();
    },
  };
}
