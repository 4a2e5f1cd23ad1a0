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
  if (!connection.send({ type: "approval_response", request_id: card.request_id, verdict, signature, passkey })) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
  if (verdict === "edit_requested") {
    const asked = state.messages.find((each) => each.sender === "owner" && each.trace_id === card.trace_id);
    fill(asked?.text ?? "");
  }
}
