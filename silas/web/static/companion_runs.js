// @ts-check
// What a companion did: each run with why it woke, what was checked, what it cost, and once more.
import { day, h, time } from "/dom.js";
import { visible } from "/visible.js";

const OFFLINE = "offline:brain";
const SUBJECT_WORDS = { model: "asking for a proposal", offline: "the fixed rules" };
const RESULT_WORDS = {
  confirmation_required: "it waits for your decision",
  success: "done",
  partial: "looked at",
  declined: "you said no",
};
const REASON_WORDS = {
  subscription: "something changed",
  timer: "its timer",
  user_initiated: "you spoke to it",
  recovery_catchup: "catching up",
  manual: "you woke it",
};
const STATUS_WORDS = {
  queued: "waits",
  running: "works",
  completed: "done",
  failed_terminal: "failed",
  cancelled: "called off",
  skipped_sleeping: "skipped: asleep",
  skipped_destroyed: "skipped: ended",
  skipped_paused: "skipped: paused",
  skipped_stopped: "skipped: stopped",
};

const replayed = new Map(); // by run: what came of doing it once more

/** The newest runs, newest first. */
export function runs({ companion, runs: found, words: known }, desk) {
  if (!found.length) return null;
  const words = {
    ...known,
    tools: { ...known.tools, ...SUBJECT_WORDS, [companion.kind]: "what it is told" },
  };
  return h(
    "details",
    { class: "companion-runs", "data-key": "runs" },
    h("summary", {}, "What it did"),
    h(
      "ul",
      {},
      found.map((run) => {
        const trace = h("div", { class: "trace" });
        const node = h(
          "details",
          { "data-key": `run-${run.run_key}` },
          h(
            "summary",
            {},
            h("span", { class: "run-when" }, `${day(run.queued_at)}, `, time(run.queued_at)),
            h(
              "span",
              {},
              `${REASON_WORDS[run.reason] ?? run.reason}: ${STATUS_WORDS[run.status] ?? run.status}`,
            ),
          ),
          run.error_code
            ? h(
                "p",
                { class: "companion-problem" },
                visible(`${run.error_message || "It did not go through."} [${run.error_code}]`),
              )
            : null,
          trace,
        );
        node.addEventListener(
          "toggle",
          () => node.open && !trace.childElementCount && showTrace(run, trace, words, desk),
        );
        return h("li", {}, node);
      }),
    ),
  );
}

async function showTrace(run, node, words, desk) {
  node.replaceChildren(h("p", { class: "meta", role: "status" }, "Loading…"));
  try {
    const { trace } = await desk.read(`/runs/${run.run_key}`);
    const facts = [
      [
        "Model",
        trace.model_id && trace.model_id !== OFFLINE ? trace.model_id : "none: fixed rules",
      ],
      ["Prompt", `${trace.prompt_id}, version ${trace.prompt_version}`],
      ["Persona", trace.persona_version_id?.slice(0, 12)],
      ["Took", `${trace.latency_ms} ms, ${trace.retries} retries`],
      ["Used", used(trace.usage)],
    ];
    const result = h(
      "p",
      { class: "meta", role: "status", "data-replayed": run.run_key },
      replayed.get(run.run_key) ?? "",
    );
    node.replaceChildren(
      h(
        "dl",
        { class: "facts" },
        facts
          .filter(([, value]) => value)
          .map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))]),
      ),
      checks(trace.policy_decisions, words),
      calls(trace.tool_calls, words),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: async () => {
            const told = await desk.change("replay", { run_key: run.run_key }, { quiet: true });
            if (told)
              keepReplay(
                run.run_key,
                told.matches
                  ? "Replayed: it comes out the same."
                  : `Replayed: ${told.differences.map(({ what }) => what).join(", ")} came out differently.`,
              );
          },
        },
        "Replay",
      ),
      again(run, desk, false, "Run it once more"),
      again(run, desk, true, "Once more by fixed rules"),
      result,
    );
  } catch (problem) {
    node.replaceChildren(
      h(
        "p",
        { class: "meta" },
        run.status === "queued" || run.status === "running"
          ? "It has not ended yet."
          : problem.message,
      ),
    );
  }
}

// A run of its own for the same cause; what needs a yes is asked about as ever.
const again = (run, desk, byRules, label) =>
  h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        const woken = await desk.change("again", { run_key: run.run_key, by_rules: byRules });
        if (woken) keepReplay(run.run_key, "It runs once more.");
      },
    },
    label,
  );

// The page may have been drawn anew while the run was replayed.
function keepReplay(runKey, text) {
  replayed.set(runKey, text);
  /** @type {NodeListOf<HTMLElement>} */
  const nodes = document.querySelectorAll("[data-replayed]");
  for (const node of nodes) if (node.dataset.replayed === runKey) node.textContent = text;
}

const spoken = (words, name) => words[name] ?? String(name).replaceAll("_", " ");
const UNITS = {
  tokens: (amount) => `${amount} tokens`,
  cost_micro_usd: (amount) => `$${(amount / 1e6).toFixed(4)}`,
  runtime_ms: (amount) => `${(amount / 1000).toFixed(1)} s`,
  tool_calls: (amount) => `${amount} calls`,
};
const used = (usage) =>
  Object.entries(usage ?? {})
    .filter(([, amount]) => amount)
    .map(([name, amount]) => UNITS[name]?.(amount) ?? `${name.replaceAll("_", " ")} ${amount}`)
    .join(", ");

// What was asked of the policy; what had the same answers is told once, and only a refusal says more.
function checks(found, words) {
  if (!found?.length) return "";
  const told = (each) =>
    each.allowed
      ? spoken(words.checks, each.check)
      : `NOT: ${spoken(words.checks, each.check)} (${each.detail ?? each.error_code})`;
  const asked = new Map(); // by subject: what was asked about it
  for (const each of found)
    asked.set(each.subject, new Set([...(asked.get(each.subject) ?? []), told(each)]));
  const alike = new Map(); // by answers: the subjects that have the same
  for (const [subject, answers] of asked)
    alike.set([...answers].join(", "), [
      ...(alike.get([...answers].join(", ")) ?? []),
      spoken(words.tools, subject),
    ]);
  return h(
    "div",
    {},
    h("h4", { class: "small-head" }, "What was checked"),
    h(
      "dl",
      { class: "checked" },
      [...alike].map(([answers, subjects]) => [
        h("dt", {}, visible(subjects.join(", "))),
        h("dd", {}, visible(answers)),
      ]),
    ),
  );
}

function calls(found, words) {
  if (!found?.length) return "";
  return h(
    "div",
    {},
    h("h4", { class: "small-head" }, "What it called"),
    found.map((each) =>
      h(
        "details",
        { class: "call" },
        h(
          "summary",
          {},
          visible(
            `${spoken(words.tools, each.tool_name)}: ${RESULT_WORDS[each.error_code ?? each.status] ?? each.error_code ?? each.status ?? ""}`,
          ),
        ),
        h("pre", {}, visible(JSON.stringify(each, null, 1))),
      ),
    ),
  );
}
