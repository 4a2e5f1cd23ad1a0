// A decision: signed here over what the card shows, then sent.
import { sign } from "/keys.js";
import { state } from "/state.js";

/** Sign the verdict about a card and send it; `fill(text)` puts the request back for changes. */
export async function decide({ connection, device, card, verdict, plans, fill }) {
  const hashes = Object.fromEntries(plans.map(({ id, hash }) => [id, hash]));
  const decision = { verdict, approval_strength: "tap", conditions: {} };
  const signature = await sign(device, { type: `${card.kind === "call" ? "call" : "card"}_decision`, card_id: card.request_id, plan_hashes: hashes, decision });
  if (!connection.send({ type: "approval_response", request_id: card.request_id, verdict, signature })) {
    throw new Error("Silas cannot be reached right now. Nothing was decided.");
  }
  if (verdict === "edit_requested") {
    const asked = state.messages.find((each) => each.sender === "owner" && each.trace_id === card.trace_id);
    fill(asked?.text ?? "");
  }
}
