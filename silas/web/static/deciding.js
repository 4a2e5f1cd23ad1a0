// @ts-check
// A decision: signed here over what the card shows, then sent.
import { sign } from "/keys.js";
import { assertion, challengeOf } from "/passkeys.js";
import { typed } from "/program.js";

/** What was done before this signature: the steps that the runtime asks for say it. */
const strengthOf = (card, grants) => {
  if (!grants) return "tap";
  if (card.steps.includes("strong_auth")) return "passkey";
  return card.steps.includes("slide") ? "slide" : "tap";
};

// Risk and taint decide which gesture is asked for, so that they are part of what is signed.
const statement = (card) =>
  card.kind === "call"
    ? { type: "call_decision" }
    : { type: "card_decision", risk: card.risk_level, taint: card.taint };

/** Sign the verdict about a card and send it; `changes` says what should be different. */
export async function decide({ connection, device, card, verdict, plans, changes = "" }) {
  const hashes = Object.fromEntries(plans.map(({ id, hash }) => [id, hash]));
  const strength = strengthOf(card, verdict === "approved");
  const conditions = changes ? { changes } : {};
  const decision = { verdict, approval_strength: strength, conditions };
  const signature = await sign(device, {
    ...statement(card),
    card_id: card.request_id,
    plan_hashes: hashes,
    decision,
  });
  const passkey =
    strength === "passkey"
      ? await assertion(await challengeOf(plans), typed(`review approve ${card.request_id}`))
      : null;
  const chosen =
    card.kind === "call" && card.items.length > 1 ? { chosen: plans.map(({ id }) => id) } : {};
  if (
    !connection.send({
      type: "approval_response",
      request_id: card.request_id,
      verdict,
      signature,
      strength,
      passkey,
      changes,
      ...chosen,
    })
  ) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
}

const RESPONSES = {
  gate_approval: "gate_response",
  batch_review: "batch_review_response",
  draft_review: "draft_review_response",
  decision: "decision_response",
  suggestion: "suggestion_response",
  autonomy_threshold_review: "autonomy_threshold_response",
  connection_setup_step: "connection_setup_response",
  permission_escalation: "permission_escalation_response",
  connection_failure: "connection_failure_response",
};

/** Sign the answer to a question and send it; several plans at once are decided like each of them. */
export async function answer({ device, send }, card, fields) {
  const value = fields.verdict ?? fields.selected_value ?? fields.action ?? fields.selected_action;
  const strength = strengthOf(
    card,
    value !== card.actions.at(-1).value && !TAKES_RIGHTS_AWAY.has(value),
  );
  const signature = await sign(device, answerOf(card, fields, strength));
  const shown = [{ id: card.request_id, hash: card.shown.plan_hash }];
  const passkey =
    strength === "passkey"
      ? await assertion(await challengeOf(shown), typed(`review answer ${card.request_id}`))
      : null;
  if (
    !send({
      type: RESPONSES[card.type],
      request_id: card.request_id,
      ...fields,
      signature,
      strength,
      passkey,
    })
  ) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
}

// Answers that need no more than a signature, like the refusing one, which is the last.
const TAKES_RIGHTS_AWAY = new Set(["tighten_now"]);
const BATCH = { approve: "approved", decline: "declined" };

function answerOf(card, fields, strength) {
  const { body, kind } = JSON.parse(card.shown.plan);
  // Of several plans, each keeps the decision; items of an account are one question.
  const verdict = kind === "batch" ? BATCH[fields.verdict] : null;
  if (verdict)
    return {
      type: "batch_decision",
      batch: body,
      decision: { verdict, approval_strength: strength, conditions: {} },
    };
  const said = {
    type: "answer",
    card_id: card.request_id,
    content_hash: card.shown.plan_hash,
    answer: fields,
  };
  return strength === "tap" ? said : { ...said, approval_strength: strength };
}
