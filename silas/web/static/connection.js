// @ts-check
// The line to Silas: opened by a signature, opened again when it breaks, nothing lost in between.
import { named } from "/attaching.js";
import { nonce, sign, timestamp } from "/keys.js";
import { changed, FIRST, position, state, take } from "/state.js";

const REFUSED = 4001;
const LATE = "late";
const FIRST_WAIT = 400;
const LONGEST_WAIT = 8000;

export class Connection {
  #device;
  /** @type {WebSocket | null} */
  #socket = null;
  #wait = FIRST_WAIT;
  #timer = 0;

  constructor(device) {
    this.#device = device;
    addEventListener("online", () => this.#again(0));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && state.connection === "waiting") this.#again(0);
    });
  }

  open() {
    clearTimeout(this.#timer);
    const address = new URL("/ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.onmessage = (event) => this.#hear(socket, JSON.parse(event.data));
    socket.onclose = (event) => this.#closed(socket, event);
  }

  /** Be let in once more, for a new ticket. */
  renew() {
    const before = this.#socket;
    this.open();
    before?.close();
  }

  get isOpen() {
    return state.connection === "open" && this.#socket?.readyState === WebSocket.OPEN;
  }

  /** @param {import("../../../docs/wire").FromPage} frame */
  send(frame) {
    if (!this.isOpen) return false;
    this.#socket?.send(JSON.stringify(frame));
    return true;
  }

  /** Say something; it is sent again until Silas has written it down. */
  async say(text, folder = null, attachments = [], conversation = FIRST) {
    const [message_id, at] = [`msg_${nonce()}`, timestamp()];
    const message = { message_id, text, folder, attachments, conversation, timestamp: at };
    state.unsent.set(message.message_id, message);
    changed("unsent");
    await this.#sendMessage(message);
  }

  /** @param {any} message */
  async #sendMessage({ message_id, text, folder = null, attachments = [], conversation = FIRST }) {
    const said = { text, timestamp: timestamp(), nonce: nonce() };
    // The conversation and what is attached are signed as well; a message of the first conversation
    // without files is signed as it always was.
    if (conversation !== FIRST) Object.assign(said, { conversation });
    if (attachments.length) Object.assign(said, { attachments: named(attachments) });
    const signature = await sign(this.#device, said);
    this.send({ type: "message", message_id, ...said, signature, folder });
  }

  async #hear(socket, frame) {
    if (frame.type === "hello") {
      const { deviceId, token } = this.#device;
      const proof = {
        type: "auth",
        challenge: frame.challenge,
        device_id: deviceId,
        origin: location.origin,
      };
      const signature = await sign(this.#device, proof);
      socket.send(
        JSON.stringify({ type: "auth", device_id: deviceId, signature, token, ...position() }),
      );
      return;
    }
    if (frame.type === "ready") {
      this.#wait = FIRST_WAIT;
      state.connection = "open";
      changed("connection");
      for (const message of state.unsent.values()) this.#sendMessage(message);
    }
    if (frame.type === "error" && frame.retry_after) this.#laterAgain(frame);
    take(frame);
  }

  /** Silas has too much to do: what it did not take is sent again when it says. */
  #laterAgain({ about, retry_after }) {
    setTimeout(() => {
      const message = state.unsent.get(about);
      if (message && this.isOpen) this.#sendMessage(message);
    }, retry_after * 1000);
  }

  #closed(socket, event) {
    if (socket !== this.#socket) return;
    if (event.code === REFUSED && event.reason !== LATE) {
      state.connection = "revoked";
      changed("connection");
      return;
    }
    state.connection = "waiting";
    changed("connection");
    this.#again(this.#wait * (0.7 + 0.6 * Math.random()));
    this.#wait = Math.min(this.#wait * 1.8, LONGEST_WAIT);
  }

  #again(milliseconds) {
    if (state.connection !== "waiting") return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), milliseconds);
  }
}
