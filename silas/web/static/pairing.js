// The way in: this browser becomes one of the owner's devices, with one tap.
import { h, icon } from "/dom.js";
import { pair } from "/keys.js";

/** The one-time code of the link; taken out of the address at once, so that it stays nowhere. */
export function takeCode() {
  const found = /^#pair=([\w-]{8,100})$/.exec(location.hash);
  if (location.hash) history.replaceState(null, "", "/");
  return found ? found[1] : null;
}

function browserName() {
  const agent = navigator.userAgent;
  const browser = [["Edg/", "Edge"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]].find(([mark]) => agent.includes(mark))?.[1] ?? "Browser";
  const system = [["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Mac OS", "Mac"], ["Windows", "Windows"], ["Linux", "Linux"]].find(([mark]) => agent.includes(mark))?.[1] ?? "";
  return `${browser}${system ? ` on ${system}` : ""}`;
}

/** The view for a browser that is not paired; `done(device)` is called once it is. */
export function pairingView({ code, revoked, done }) {
  if (!globalThis.isSecureContext || !crypto.subtle) {
    return page("This address is not safe enough", h("p", {}, "A browser makes keys only on https, or on the machine itself. Open Silas at ", h("code", {}, "http://127.0.0.1"), " or put https before it."));
  }
  if (!code) {
    return page(revoked ? "This browser is no longer paired" : "This browser is not paired",
      h("p", {}, "On the machine where Silas runs, type"),
      h("pre", { class: "code" }, h("code", {}, "silas devices pair")),
      h("p", {}, "and open the link that it prints."));
  }
  return page("Pair this browser", form(code, done));
}

function form(code, done) {
  const name = h("input", { id: "device-name", value: browserName(), maxlength: "80", autocomplete: "off", spellcheck: "false" });
  const local = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
  const token = local ? null : h("input", { id: "device-token", type: "password", autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Pair this browser");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      done(await pair({ code, name: name.value.trim() || browserName(), token: token?.value }));
    } catch (error) {
      problem.textContent = error.name === "NotSupportedError" ? "This browser cannot make Ed25519 keys. Use a current one." : error.message;
      button.disabled = false;
    }
  };
  return h("form", { onsubmit: submit },
    h("p", {}, "A key is made in this browser and never leaves it. It signs what you say and what you approve; you can end it at any time."),
    h("label", { for: "device-name" }, "Name of this device"), name,
    token && [h("label", { for: "device-token" }, "Access token"), token],
    button, problem);
}

function page(title, ...content) {
  return h("main", { class: "gate" }, h("div", { class: "gate-box" }, icon("shield", "big"), h("h1", {}, title), ...content));
}
