// What stands on a card about times: words where there are some, the expression itself where not.
import assert from "node:assert/strict";
import { test } from "node:test";

import { scheduleInWords } from "/card_diff.js";

test("a schedule in words", () => {
  for (const [schedule, words] of [
    [null, null],
    ["always_on", "always"],
    ["0 * * * *", "every hour"],
    ["*/1 * * * *", "every minute"],
    ["*/15 * * * *", "every 15 minutes"],
    ["0 */6 * * *", "every 6 hours"],
    ["30 7 * * *", "every day at 7:30"],
    ["5 9 * * 7", "every Sunday at 9:05"],
    ["0 9 * * 1-5", "every weekday at 9:00"],
    ["99 9 * * *", "99 9 * * *"],
    ["*/15 * * *", "*/15 * * *"],
    ["* * * * *", "every minute"],
    ["0 9 1 * *", "every month on the 1st at 9:00"],
    ["0 9 12 5 *", "every year on 12 May at 9:00"],
    ["30 17 * * 1,3,5", "every Monday, Wednesday and Friday at 17:30"],
    ["0 9 * * 0,6", "every weekend at 9:00"],
    ["0 9 1 * 1", "0 9 1 * 1"],
    ["0 9 12 13 *", "0 9 12 13 *"],
  ])
    assert.equal(scheduleInWords(schedule), words);
});
