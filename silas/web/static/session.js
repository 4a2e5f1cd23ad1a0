// @ts-check
// What goes over HTTP needs a session. The line to Silas gives a ticket that opens one, so whoever is
// faster than the line waits for it, and a session that has ended is opened anew.
import { sendSigned } from "/keys.js";
import { changed, onChange, state } from "/state.js";

const LONGEST_WAIT = 20000;
const ENDED = 401;

/** @type {import("/connection.js").Connection | null} */
let line = null;
let count = 0; // of the sessions that were opened
/** @type {Promise<unknown> | null} */
let renewal = null;

/** Open a session whenever this line has been let in; `then()` is called once it is open. */
export function openSessions(connection, then) {
  line = connection;
  onChange((what) => {
    if (what !== "ready" || !state.ready) return;
    state.session = open(state.ready.ticket);
    state.session.then(() => {
      count += 1;
      changed("session");
      then();
    });
  });
}

// Whether it was opened shows with the first request.
function open(ticket) {
  return fetch("/api/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket }),
  }).catch(() => {});
}

/** Read over HTTP. */
export const sessionFetch = (path) => inSession(() => fetch(path));

/** Change something over HTTP, signed by this device. */
export const signedFetch = (device, path, value) =>
  inSession(() => sendSigned(device, path, value));

async function inSession(request) {
  await aSession();
  const used = count;
  const answer = await request();
  if (answer.status !== ENDED || !line) return answer;
  await renewed(used);
  return count === used ? answer : request();
}

/** Wait for the first session, unless the line is cut. */
async function aSession() {
  if (line && !state.session && state.connection !== "waiting") await theNext();
  await state.session;
}

/** Several requests may find at once that a session has ended; the first of them asks for another. */
function renewed(used) {
  if (count !== used) return null;
  renewal ??= theNext().finally(() => (renewal = null));
  return renewal;
}

/** Be let in by the line: once more, if it is open. No answer in time is no session. */
function theNext() {
  return new Promise((resolve) => {
    const timer = setTimeout(finish, LONGEST_WAIT);
    const stop = onChange((what) => {
      const isCut = what === "connection" && state.connection !== "open";
      if (what === "session" || isCut) finish();
    });
    function finish() {
      clearTimeout(timer);
      stop();
      resolve(null);
    }
    if (state.session) line?.renew();
  });
}
