// One companion: its report with sources, what it asks and waits for, what it did and why, its persona.
import { modelSelect } from "/companion_new.js";
import { HEALTH_WORDS, health, meter, question } from "/companion_parts.js";
import { day, h, icon, time } from "/dom.js";
import { visible } from "/visible.js";

const REASON_WORDS = { subscription: "something changed", timer: "its timer", user_initiated: "you spoke to it", recovery_catchup: "catching up", manual: "you woke it" };
const STATUS_WORDS = {
  queued: "waits", running: "works", completed: "done", failed_terminal: "failed", cancelled: "called off",
  skipped_sleeping: "skipped: asleep", skipped_destroyed: "skipped: ended", skipped_paused: "skipped: paused", skipped_stopped: "skipped: stopped",
};

/** Everything about one; `desk` also has `go`, `show`, `place` and `redraw`. */
export function companionPart(detail, desk) {
  const { companion } = detail;
  return h("div", { class: "companion" },
    h("button", { type: "button", class: "quiet back", onclick: () => desk.go({}) }, icon("chevron", "back-icon"), "All companions"),
    h("header", { class: "companion-top" }, h("h3", {}, visible(companion.display_name)), health(companion), meter(companion.budget)),
    h("p", { class: "meta" }, visible(`${detail.summary} It sees ${companion.categories.map(({ name }) => name).join(", ")}, and asks you from ${detail.confirm_from} risk on.`)),
    problem(detail), consent(detail, desk), actions(companion, desk), speaking(companion, desk),
    detail.questions.length ? h("section", { class: "companions-group" }, h("h4", {}, "It asks you"), detail.questions.map((each) => question(each, desk))) : null,
    waiting(detail, desk), report(detail, desk), runs(detail, desk), personas(detail, desk), configuration(detail, desk));
}

// Every refusal has its way out.
function problem({ companion, runs: found }) {
  const last = found[0];
  const told = { out_of_budget: "Today's budget is used up. It goes on tomorrow, or with a larger one.", stopped: "A stop switch is on.", paused: "It rests until you resume it." }[companion.health];
  if (told) return h("p", { class: "companion-problem" }, icon("alert"), told);
  if (last?.error_code) return h("p", { class: "companion-problem" }, icon("alert"), visible(`${last.error_message || last.error_code} [${last.error_code}]`));
  return null;
}

function consent({ companion, disclosure }, desk) {
  if (!disclosure) return null;
  const facts = [["Where", disclosure.host ?? disclosure.provider], ["Training", disclosure.training], ["Kept", disclosure.retention], ["Law", disclosure.jurisdiction], ["It is sent", `${disclosure.fields.join(", ")}, and nothing else`]];
  return h("details", { class: "companion-consent", "data-key": "consent", open: !disclosure.confirmed },
    h("summary", {}, visible(disclosure.confirmed ? `You agreed to ${disclosure.model_id}` : `Before ${disclosure.model_id} is asked`)),
    h("p", {}, visible(disclosure.disclosure)),
    h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(value ?? "not known"))])),
    disclosure.confirmed
      ? h("button", { type: "button", class: "quiet", onclick: () => desk.change("revoke_consent", { agent_id: companion.id }) }, "Take it back")
      : h("button", { type: "button", class: "primary", onclick: () => desk.change("consent", { agent_id: companion.id, policy_version: disclosure.policy_version }) }, "I agree"));
}

function actions(companion, desk) {
  const act = (call, label, className = "quiet") => h("button", { type: "button", class: className, onclick: () => desk.change(call, { agent_id: companion.id }) }, label);
  const isPaused = companion.health === "paused";
  const end = h("button", { type: "button", class: "quiet danger", onclick: () => (end.dataset.sure ? desk.change("destroy", { agent_id: companion.id }) : sure(end)) }, "End it");
  return h("div", { class: "companion-actions" },
    act("wake", "Wake it"), isPaused ? act("resume", "Resume") : act("pause", "Pause"), companion.health === "running" ? act("cancel", "Call off") : null,
    h("button", { type: "button", class: "quiet", onclick: () => desk.change("stop", { scope: "companion", target: companion.id }) }, "Stop"), end);
}

function sure(button) {
  button.dataset.sure = "1";
  button.textContent = "End it for good?";
  setTimeout(() => { delete button.dataset.sure; button.textContent = "End it"; }, 4000);
}

function speaking(companion, desk) {
  const text = h("input", { type: "text", maxlength: 2000, placeholder: `Say something to ${companion.display_name}`, "aria-label": `Say something to ${companion.display_name}` });
  const form = h("form", { class: "companion-answer" }, text, h("button", { type: "submit", class: "primary" }, "Say"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (said && await desk.change("wake", { agent_id: companion.id, said })) desk.tell("It has heard you. What it makes of it stands in its report.");
  });
  return form;
}

function waiting({ waiting: found }, desk) {
  if (!found.length) return null;
  return h("section", { class: "companions-group" }, h("h4", {}, "Waits for your decision"),
    found.map((each) => h("div", { class: "companion-waiting" },
      h("p", {}, h("strong", {}, visible(each.tool_name.replaceAll("_", " "))), " ", visible(each.reason)),
      h("details", { "data-key": `call-${each.operation_id}` }, h("summary", {}, "The call, to the letter"), h("pre", {}, visible(JSON.stringify(each.arguments, null, 2)))),
      each.status === "awaiting_approval" || each.status === "waiting" ? h("button", { type: "button", class: "primary", onclick: () => desk.show("review") }, "Decide in Review") : null)));
}

function report({ report: found }, desk) {
  if (!found) return h("p", { class: "empty" }, "It has not written a report yet.");
  const { report: written, freshness } = found;
  return h("section", { class: "companion-report" },
    h("h4", {}, visible(written.content.headline)),
    h("p", { class: "meta", "data-fresh": String(freshness.fresh) }, `${freshness.sentence} Written ${day(written.created_at)}, `, time(written.created_at)),
    written.content.sections.filter(({ claims }) => claims.length).map((section) => [h("h5", {}, visible(section.title)), h("ul", { class: "claims" }, section.claims.map((claim) => claimLine(written.id, claim, desk)))]));
}

function claimLine(reportId, claim, desk) {
  const sources = h("ul", { class: "sources" });
  const node = h("details", { "data-key": `why-${claim.id}` },
    h("summary", {}, visible(claim.text), claim.inference_flag === "inferred" ? h("span", { class: "inferred" }, "inferred") : null, h("span", { class: "why" }, "Why do you say this?")), sources);
  node.addEventListener("toggle", async () => {
    if (!node.open || sources.childElementCount) return;
    const { sources: found } = await desk.read(`/reports/${reportId}/${claim.id}`);
    sources.replaceChildren(...found.map((each) => h("li", {}, visible(`${each.inferred ? "Inferred from" : "From"} ${each.label}`), each.exists ? null : " (it is not there any more)", " ", time(each.captured_at))));
  });
  return h("li", {}, node);
}

function runs({ runs: found }, desk) {
  if (!found.length) return null;
  return h("details", { class: "companion-runs", "data-key": "runs" }, h("summary", {}, "What it did"), h("ul", {}, found.map((run) => {
    const trace = h("div", { class: "trace" });
    const node = h("details", { "data-key": `run-${run.run_key}` },
      h("summary", {}, time(run.queued_at), ` ${REASON_WORDS[run.reason] ?? run.reason}: ${STATUS_WORDS[run.status] ?? run.status}`, run.error_code ? visible(` (${run.error_code})`) : ""), trace);
    node.addEventListener("toggle", () => node.open && !trace.childElementCount && showTrace(run, trace, desk));
    return h("li", {}, node);
  })));
}

async function showTrace(run, node, desk) {
  try {
    const { trace } = await desk.read(`/runs/${run.run_key}`);
    const facts = [["Model", trace.model_id ?? "none: fixed rules"], ["Prompt", trace.prompt_version], ["Persona", trace.persona_version_id], ["Took", `${trace.latency_ms} ms, ${trace.retries} retries`], ["Used", plain(trace.usage)], ["Problem", trace.error_message]];
    const result = h("p", { class: "meta", role: "status" });
    node.replaceChildren(
      h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))])),
      checks(trace.policy_decisions), steps("Calls", trace.tool_calls),
      h("button", { type: "button", class: "quiet", onclick: async () => {
        const told = await desk.change("replay", { run_key: run.run_key });
        if (told) result.textContent = told.matches ? "Replayed: it comes out the same." : `Replayed: ${told.differences.map(({ what }) => what).join(", ")} came out differently.`;
      } }, "Replay"), result);
  } catch {
    node.replaceChildren(h("p", { class: "meta" }, "There is no trace of this run."));
  }
}

// What was asked of the policy, one line for each subject; only a refusal says more.
function checks(found) {
  if (!found?.length) return "";
  const subjects = new Map();
  for (const each of found) subjects.set(each.subject, [...(subjects.get(each.subject) ?? []), each]);
  return h("div", {}, h("h5", {}, "Policy: what was checked"), h("dl", { class: "facts" }, [...subjects].map(([subject, asked]) => [h("dt", {}, visible(words(subject))),
    h("dd", {}, visible([...new Set(asked.map((each) => (each.allowed ? words(each.check) : `${words(each.check)}: no (${each.detail ?? each.error_code})`)))].join(", ")))])));
}

const words = (name) => String(name).replaceAll("_", " ");
const steps = (name, found) => (found?.length ? h("div", {}, h("h5", {}, name), found.map((each) => h("pre", {}, visible(JSON.stringify(each, null, 1))))) : "");

function personas({ companion, personas: found }, desk) {
  return h("details", { "data-key": "persona" }, h("summary", {}, "How it speaks"), found.map((each) => h("div", { class: "persona-version" },
    h("h5", {}, visible(`Version ${each.version.version}, ${each.in_use ? "in use" : each.version.status}, by ${each.version.authored_by === "user" ? "you" : each.version.authored_by}`)),
    each.changes.map((change) => h("div", { class: "persona-change" }, h("span", {}, visible(words(change.field))), empty(change.before) ? null : h("del", {}, visible(plain(change.before))), h("ins", {}, visible(plain(change.after))))),
    each.version.status === "draft" ? h("button", { type: "button", onclick: () => desk.change("approve_persona", { agent_id: companion.id, version_id: each.version.id }) }, "Approve this version") : null)));
}

const empty = (value) => value === null || value === undefined;

function plain(value) {
  if (empty(value)) return "nothing";
  if (Array.isArray(value)) return value.map(plain).join(" ");
  return typeof value === "object" ? Object.entries(value).map(([name, inner]) => `${words(name)}: ${plain(inner)}`).join(" · ") : String(value);
}

function configuration({ companion, wakes_on: wakes, tools, confirm_from: confirmFrom }, desk) {
  const name = h("input", { type: "text", maxlength: 60, value: companion.display_name, "aria-label": "Its name" });
  const model = modelSelect(companion.model_id);
  const risk = h("select", { "aria-label": "It asks you from this risk on" }, ["low", "medium", "high", "irreversible"].map((level) => h("option", { value: level }, level)));
  const form = h("form", { class: "companion-config" }, name, model, h("label", {}, "Asks you from", risk), h("button", { type: "submit", class: "primary" }, "Save"));
  risk.value = confirmFrom;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    desk.change("configure", { agent_id: companion.id, display_name: name.value.trim() || null, model_id: model.value || null, offline: !model.value, confirm_from: risk.value });
  });
  return h("details", { "data-key": "config" }, h("summary", {}, "Configure"), form,
    h("p", { class: "meta" }, visible(`Wakes on: ${wakes.join(", ") || "nothing"}.`)), h("p", { class: "meta" }, visible(`May use: ${tools.map((tool) => tool.replaceAll("_", " ")).join(", ")}.`)),
    h("p", { class: "meta" }, `State: ${HEALTH_WORDS[companion.health]}.`));
}
