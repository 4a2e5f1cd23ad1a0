// A decision: signed here over what the card shows, then sent.
import { sign } from "/keys.js";
import { assertion, challengeOf } from "/passkeys.js";
import { state } from "/state.js";

// Risk and taint decide which gesture is asked for, so that they are part of what is signed.
const statement = (card) => (card.kind === "call" ? { type: "call_decision" } : { type: "card_decision", risk: card.risk_level, taint: card.taint });

/** Sign the verdict about a card and send it; `fill(text)` puts the request back for changes. */
export async function decide({ connection, device, card, verdict, plans, fill }) {
  const hashes = Object.fromEntries(plans.map(({ id, hash }) => [id, hash]));
  const decision = { verdict, approval_strength: "tap", conditions: {} };
  const signature = await sign(device, { ...statement(card), card_id: card.request_id, plan_hashes: hashes, decision });
  const strong = verdict === "approved" && card.steps.includes("strong_auth");
  const passkey = strong ? await assertion(await challengeOf(plans), `silas review approve ${card.request_id}`) : null;
  const chosen = card.kind === "call" && card.items.length > 1 ? { chosen: plans.map(({ id }) => id) } : {};
  if (!connection.send({ type: "approval_response", request_id: card.request_id, verdict, signature, passkey, ...chosen })) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
  // A plan that writes a text comes back as a draft to edit; any other is asked for anew, in words.
  const hasText = plans.length === 1 && /^`{3,}file path=/m.test(plans[0].plan.body ?? "");
  if (verdict === "edit_requested" && !hasText) {
    const asked = state.messages.find((each) => each.sender === "owner" && each.trace_id === card.trace_id);
    fill(asked?.text ?? "");
  }
}

const RESPONSES = {
  gate_approval: "gate_response", batch_review: "batch_review_response", draft_review: "draft_review_response",
  decision: "decision_response", suggestion: "suggestion_response", autonomy_threshold_review: "autonomy_threshold_response",
  connection_setup_step: "connection_setup_response", permission_escalation: "permission_escalation_response",
  connection_failure: "connection_failure_response",
};

/** Sign the answer to a question and send it; several plans at once are decided like each of them. */
export async function answer({ device, send }, card, fields) {
  const signature = await sign(device, answerOf(card, fields));
  if (!send({ type: RESPONSES[card.type], request_id: card.request_id, ...fields, signature })) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
}

const BATCH = { approve: "approved", decline: "declined" };

function answerOf(card, fields) {
  const { body } = JSON.parse(card.shown.plan);
  const verdict = card.type === "batch_review" ? BATCH[fields.verdict] : null;
  if (verdict) return { type: "batch_decision", batch: body, decision: { verdict, approval_strength: "tap", conditions: {} } };
  return { type: "answer", card_id: card.request_id, content_hash: card.shown.plan_hash, answer: fields };
}
