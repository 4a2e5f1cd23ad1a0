// @ts-check
// Those who talk to Silas with a link of the owner's: the links, who was here, what waits.
import { h, time } from "/dom.js";
import { answerOf } from "/keys.js";
import { signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { typed } from "/program.js";
import { visible } from "/visible.js";

const UNREADABLE = "This cannot be read right now.";
const SPEAKERS = { visitor: "Visitor", silas: "Silas", owner: "You" };

/** A dialog; `page` is what every view has at hand. */
export function visitorsDialog(page) {
  const body = h("div", { class: "visitors" });
  const note = h("p", { class: "dialog-note", role: "status" });
  const node = h(
    "dialog",
    { class: "dialog", "aria-label": "Visitors" },
    h("h2", {}, "Visitors"),
    h(
      "p",
      { class: "dialog-lead" },
      "Others who talk to Silas with a link of yours. ",
      h("code", {}, typed("visitors invite")),
      " makes one.",
    ),
    body,
    note,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", onclick: () => node.close() }, "Close"),
    ),
  );
  let turn = 0; // what was asked for before does not overwrite what was asked for since

  const draw = async (part) => {
    const mine = ++turn;
    try {
      const nodes = await part();
      if (mine === turn) body.replaceChildren(...nodes.filter(Boolean));
    } catch (problem) {
      if (mine === turn) note.textContent = problem.message;
    }
  };
  const read = async (name, value = {}) =>
    answerOf(await signedFetch(page.device, `/api/visitors/${name}`, value), UNREADABLE);
  const change = async (name, value, done) => {
    try {
      await answerOf(
        await signedFetch(page.device, `/api/visitors/${name}`, value),
        "That did not work.",
      );
      note.textContent = done;
    } catch (problem) {
      note.textContent = problem.message;
    }
  };
  const everything = async () => {
    const [links, cases, seen] = await Promise.all([
      read("list"),
      read("queue"),
      read("conversations"),
    ]);
    return [
      part(
        "Waits for a person",
        cases.map((each) => caseRow(each, seen)),
        "Nobody waits for a person.",
      ),
      part("Links", links.reverse().map(linkRow), "There are no links."),
      part("Conversations", seen.map(conversationRow), "Nobody was here."),
    ];
  };
  const overview = () => draw(everything);

  const caseRow = (each, seen) => {
    const link = seen.find((one) => one.connection_id === each.connection_id)?.link;
    return row(
      [h("strong", {}, visible(link ?? "A visitor")), each.queue && tag(each.queue)],
      [visible(`${each.gate}: ${each.reason}`), " · ", time(each.opened_at)],
      button("Show", "Show the conversation", () => open(each.connection_id, each.case_id)),
    );
  };
  const linkRow = (link) =>
    row(
      [h("strong", {}, visible(link.name)), tag(stateOf(link))],
      [`today ${link.used_today.messages} of ${link.limits.messages_per_day} messages`],
      link.good &&
        sure("Revoke", `Revoke ${link.name}`, async () => {
          await change(
            "revoke",
            { link_id: link.link_id },
            `“${link.name}” opens nothing any more. What waited of it is withdrawn.`,
          );
          await overview();
        }),
    );
  const conversationRow = (each) =>
    row(
      [h("strong", {}, visible(each.link)), each.waits && tag("waits for a person")],
      ["last seen ", time(each.seen_at)],
      button("Show", "Show the conversation", () => open(each.connection_id)),
    );

  const open = (name, waiting = null) => {
    note.textContent = "";
    return draw(async () =>
      conversation(name, waiting, await read("show", { connection_id: name })),
    );
  };
  const conversation = (name, waiting, lines) => {
    const words = h("textarea", {
      rows: "3",
      maxlength: "4000",
      placeholder: "Answer in person",
      "aria-label": "Your answer",
    });
    return [
      button("Back", "Back to the list", overview),
      h(
        "ol",
        { class: "visitor-lines", tabindex: "0", "aria-label": "The conversation" },
        lines.map((line) =>
          h(
            "li",
            {},
            h("strong", {}, SPEAKERS[line.who] ?? line.who),
            h("p", {}, visible(line.text)),
          ),
        ),
      ),
      lines.length === 0 && h("p", { class: "meta" }, "Nothing was said."),
      words,
      h(
        "div",
        { class: "dialog-actions" },
        waiting &&
          button("Close the case", "Close the case without an answer", async () => {
            await change("close", { case_id: waiting }, "Closed without an answer.");
            await overview();
          }),
        button("Send", "Send my answer to the visitor", async () => {
          if (!words.value.trim()) return;
          await change("reply", { to: name, text: words.value }, "Sent.");
          await draw(async () =>
            conversation(name, null, await read("show", { connection_id: name })),
          );
        }),
      ),
    ];
  };

  onChange((what) => {
    if (what === "cards" && node.open && !body.querySelector("textarea, [data-sure]")) overview();
  });
  return {
    node,
    show: () => {
      note.textContent = "";
      body.replaceChildren();
      node.showModal();
      overview();
    },
  };
}

const stateOf = (link) =>
  link.revoked_at
    ? "revoked"
    : !link.good
      ? "expired"
      : link.expires_at
        ? `until ${new Date(link.expires_at).toLocaleDateString()}`
        : "open";

export const part = (title, rows, empty) =>
  h(
    "section",
    { "aria-label": title },
    h("h3", {}, title),
    rows.length ? h("ul", { class: "devices" }, rows) : h("p", { class: "meta" }, empty),
  );

export const row = (words, meta, action) =>
  h("li", {}, h("div", {}, ...words, h("p", { class: "meta" }, ...meta)), action);

export const tag = (text) => h("span", { class: "tag" }, visible(text));

export const button = (text, label, run) =>
  h("button", { type: "button", class: "quiet", "aria-label": label, onclick: run }, text);

// Twice, because it cannot be taken back.
export function sure(text, label, run) {
  const node = button(text, label, () => {
    if (node.dataset.sure) return run();
    node.dataset.sure = "yes";
    node.textContent = "Really? For good";
    node.setAttribute("aria-label", `${label}: really, for good`);
  });
  node.classList.add("decline");
  return node;
}
