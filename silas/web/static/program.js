// @ts-check
// What to type for `silas` on the machine where Silas runs: its path, where the name is not found.
let program = "silas";

/** Take over what Silas says of itself. */
export function learnProgram(name) {
  if (name) program = name;
}

let token = false;

/** Whether pairing asks for the access token as well. */
export const needsToken = () => token;

/** Take over that Silas asks for its access token. */
export function learnToken(needed) {
  token = Boolean(needed);
}

/** A command of Silas's as it can be typed. */
export const typed = (command) => `${program} ${command}`;
