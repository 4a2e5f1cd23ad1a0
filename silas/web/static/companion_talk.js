// @ts-check
// The conversation with a companion: what was said, what it did, its questions, and what is said next.
import { question } from "/companion_parts.js";
import { day, h, icon, time } from "/dom.js";
import { onChange } from "/state.js";
import { visible } from "/visible.js";

const AT_WORK = ["queued", "running"];
const BY_ITSELF = {
  subscription: "by itself: something changed",
  timer: "by itself: its time",
  recovery_catchup: "by itself: catching up",
  manual: "you woke it",
};
const MARKS = { done: "check", waits: "activity", not: "alert" };

/** What was typed and not sent, by companion: the page is drawn anew. @type {Map<string, string>} */
const drafts = new Map();
/** What was said before the newest turns, by companion. @type {Map<string, {turns: any[], earlier: boolean}>} */
const older = new Map();
/** The answers that grow, by run. @type {Map<string, string>} */
const growing = new Map();

onChange((what, frame) => {
  if (what !== "companion_answering") return;
  growing.set(frame.run_key, frame.text);
  /** @type {HTMLElement | null} */
  const node = document.querySelector(`[data-growing="${frame.run_key}"]`);
  if (node) node.replaceChildren(...(frame.text ? visible(frame.text) : ["…"]));
});

/** All of it. `detail.conversation` has the newest turns, oldest first. */
export function conversation({ companion, conversation: found, questions }, desk) {
  const before = older.get(companion.id);
  const newest = new Set(found.turns.map(({ run_key: key }) => key));
  const kept = (before?.turns ?? []).filter(({ run_key: key }) => !newest.has(key));
  const turns = [...kept, ...found.turns];
  const asked = new Set(turns.flatMap((turn) => turn.questions.map(({ id }) => id)));
  const rest = questions.filter(({ id }) => !asked.has(id));
  const log = h(
    "div",
    { role: "log", "aria-label": `Conversation with ${companion.display_name}` },
    h(
      "ol",
      { class: "talk" },
      turns.map((turn, place) => one(turn, turns[place - 1], companion, desk)),
    ),
  );
  return h(
    "section",
    { class: "companion-talk" },
    h("h4", {}, "Conversation"),
    (before ? before.earlier : found.earlier) ? earlier(companion, turns, desk) : null,
    turns.length ? log : h("p", { class: "empty" }, `Say something to ${companion.display_name}.`),
    rest.map((each) => question(each, desk)),
    composer(companion, desk),
    foot(companion, found, desk),
  );
}

function one(turn, before, companion, desk) {
  const isNewTalk = turn.session_id && before && before.session_id !== turn.session_id;
  const works = AT_WORK.includes(turn.status);
  const said = turn.said
    ? h("p", { class: "talk-said" }, h("span", { class: "sr" }, "You: "), visible(turn.said))
    : null;
  const words = works
    ? h(
        "p",
        { class: "talk-answer", "data-growing": turn.run_key, "aria-busy": "true" },
        visible(growing.get(turn.run_key) ?? "…"),
      )
    : turn.text
      ? h(
          "p",
          { class: "talk-answer" },
          h("span", { class: "sr" }, `${companion.display_name}: `),
          visible(turn.text),
        )
      : null;
  const did = turn.did.filter(({ writes }) => writes);
  const parts = [
    words,
    did.length
      ? h(
          "ul",
          { class: "talk-did" },
          did.map((each) => action(each, desk)),
        )
      : null,
    turn.questions.map((each) => asked(each, companion, desk)),
    turn.problem ? failure(turn) : null,
  ];
  const isEmpty = !words && !did.length && !turn.questions.length && !turn.problem;
  return h(
    "li",
    { class: "talk-turn", "data-run": turn.run_key, "data-asked": String(turn.asked) },
    isNewTalk ? h("p", { class: "talk-break" }, "A new conversation") : null,
    said,
    h(
      "div",
      { class: "talk-reply" },
      isEmpty
        ? h(
            "p",
            { class: "meta" },
            turn.forgotten ? "What it said here is forgotten." : "It had nothing to say.",
          )
        : parts,
      h(
        "p",
        { class: "talk-when" },
        `${day(turn.at)}, `,
        time(turn.at),
        turn.said ? null : ` · ${BY_ITSELF[turn.reason] ?? turn.reason}`,
        turn.by_rules && turn.text ? " · by fixed rules" : null,
      ),
    ),
  );
}

function action(each, desk) {
  const mark = each.waits ? "waits" : each.outcome === "done" ? "done" : "not";
  return h(
    "li",
    { "data-outcome": mark },
    icon(MARKS[mark]),
    h(
      "span",
      {},
      visible(`${each.what}: ${each.outcome}`),
      each.changes.length ? h("span", { class: "meta" }, visible(each.changes.join("; "))) : null,
    ),
    each.waits
      ? h(
          "button",
          { type: "button", class: "quiet", onclick: () => desk.show("review") },
          "Decide",
        )
      : null,
  );
}

// One that waits is answered here, by a tap or below in words; one that was answered says how.
function asked(each, companion, desk) {
  if (each.open) return question({ ...each, agent_name: companion.display_name, gates: 0 }, desk);
  return h(
    "p",
    { class: "talk-asked" },
    visible(each.prompt_text),
    h(
      "span",
      { class: "meta" },
      each.answer ? visible(` You said: ${each.answer}`) : " Nobody answered.",
    ),
  );
}

function failure(turn) {
  const more = turn.repeats
    ? ` It was so ${turn.repeats} more time${turn.repeats === 1 ? "" : "s"}.`
    : "";
  return h(
    "p",
    { class: "talk-failed" },
    icon("alert"),
    h("span", {}, visible(`${turn.problem}${more}`)),
  );
}

function composer(companion, desk) {
  const label = `Say something to ${companion.display_name}`;
  const text = h("textarea", {
    rows: "1",
    maxlength: 4000,
    placeholder: label,
    "aria-label": label,
    oninput: () => drafts.set(companion.id, text.value),
  });
  text.value = drafts.get(companion.id) ?? "";
  const form = h(
    "form",
    { class: "talk-composer" },
    text,
    h("button", { type: "submit", class: "primary" }, "Send"),
  );
  const send = async () => {
    const said = text.value.trim();
    if (!said) return;
    drafts.delete(companion.id);
    text.value = "";
    if (!(await desk.change("say", { agent_id: companion.id, said }))) {
      drafts.set(companion.id, said);
      text.value = said;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  return form;
}

function foot(companion, { quiet, session }, desk) {
  const words = quiet
    ? `It woke ${quiet} more time${quiet === 1 ? "" : "s"} and had nothing that you need to read.`
    : "";
  if (!words && !session) return null;
  return h(
    "div",
    { class: "talk-foot" },
    h("p", { class: "meta" }, words),
    session
      ? h(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => desk.change("end_conversation", { agent_id: companion.id }),
          },
          "End this conversation",
        )
      : null,
  );
}

function earlier(companion, turns, desk) {
  return h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        try {
          const first = encodeURIComponent(turns[0].at);
          const { conversation: more } = await desk.read(
            `/of/${companion.id}/conversation/${first}`,
          );
          const known = older.get(companion.id)?.turns ?? [];
          older.set(companion.id, { turns: [...more.turns, ...known], earlier: more.earlier });
          desk.look();
        } catch (problem) {
          desk.tell(problem.message);
        }
      },
    },
    "What was said before",
  );
}
