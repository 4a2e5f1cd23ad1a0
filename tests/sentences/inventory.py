"""Which test puts the product into the state in which a sentence would be false.

`claims` finds texts that say what was done, is being done or will be done, in the files that tell
the owner about work, decisions and the server. Each belongs to a family: a file, words of the text,
and the test in which the sentence would be false if it were said. A sentence without a family has
to be proven first: write its test, then add a line here.

The page, Activity and companions are in here as well (`SHOWN`); a family's file may be a pattern.

Not in here: sentences that refuse bad input, what only a model reads, and the journal's own
operations, which are told elsewhere.
"""

import re
from functools import cache

from tests.sentences.collect import texts

FILES = (
    "stream/accounts.py",
    "stream/cards.py",
    "stream/healing.py",
    "stream/offers.py",
    "stream/resuming.py",
    "stream/steps/plans.py",
    "proactive/autonomy.py",
    "proactive/calibrator.py",
    "proactive/grants.py",
    "proactive/suggestions.py",
    "review/unasked.py",
    "stream/loops/runtime.py",
    "work/wording.py",
    "work/execution.py",
    "work/goal.py",
    "work/project.py",
    "work/publication.py",
    "work/delivery.py",
    "cli/work.py",
    "cli/review.py",
    "cli/start.py",
    "cli/status.py",
    "cli/plan.py",
    "cli/backup.py",
    "cli/audit_files.py",
)
SHOWN = (
    "web/static/*.js",
    "stream/activity.py",
    "stream/cases.py",
    "cli/visitors.py",
    "cli/companions.py",
    "cli/companions_changes.py",
    "companions/errors.py",
    "companions/operations.py",
    "companions/gateway.py",
    "companions/projection.py",
    "companions/resumption.py",
    "companions/service.py",
    "companions/timers.py",
    "companions/tools/executor.py",
    "companions/wake/worker.py",
    "companions/workflow.py",
)
"""What the page, Activity, visitors and companions say."""
_CLAIM = re.compile(
    r"\b(?:was|were|nothing|everything|done|stopped|running|waits?|begin|approved|undone"
    r"|no longer|any more|goes on|here is|is kept|stays|is as it was|is removed"
    r"|I (?:left|leave|noted|plan|do|am|started|asked|could|changed))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[A-Z{“`].*\s.*[.:} ]\Z", re.DOTALL)
_SHOWN_BY_HELP = re.compile(
    r"\A(?:Where nobody|Everything that the last|A copy of|End a |Also those that|The same, about"
    r"|Hello, I am|I plan\.|What shall I do|Everything in the journal, also|What is in an export"
    r"|This page needs the whole)"
)
"""What explains a command or a page, and says nothing about what was or will be done."""


@cache
def claims() -> tuple[tuple[str, str], ...]:
    """Every sentence of these files that claims something, with its file."""
    return tuple(each for each in sorted(set(texts(*FILES, *SHOWN))) if _claims(each[1]))


def _claims(text: str) -> bool:
    is_sentence = _SENTENCE.match(text) and not _SHOWN_BY_HELP.match(text)
    return bool(is_sentence and _CLAIM.search(text) and "SELECT" not in text)


_WORDING = "work/test_wording.py::"
_FLOWS = "stream/test_flows.py::"
_KEPT = "companions/test_memory_of_what_was.py::"
_REVIEW = "stream/test_review.py::"
_USES = "web/test_account_uses.py::"
_BEGUN = _FLOWS + "test_a_yes_to_what_was_stopped_meanwhile_says_so_and_begins_nothing"
_WAITS = "work/test_paused.py::test_resuming_an_undecided_item_says_that_it_waits"
_PLANNED = "web/test_planned_work.py::"
_CHANGES = _PLANNED + "test_ask_for_changes_brings_a_revised_plan_as_often_as_wanted"
_ABORT = _PLANNED + "test_abort_stops_work_and_execute_next_asks_for_it_again"
_UNASKED = "proactive/test_unasked.py::test_cards_that_end_undecided_and_goals_that_do_not_get_on"
_CALIBRATOR, _GRANTS = "proactive/test_calibrator.py::", "proactive/test_grants.py::"
_LISTED = "cli/test_work_waiting.py::test_a_call_that_waits_is_in_the_list_of_what_waits"

_SERVERS = "web/test_servers_browser.py::"
_ACT, _CONTROL = "stream/activity.py", "companions/test_control.py::"
_TOLD, _PLACES = "stream/test_activity.py::", "stream/test_places.py::"
_ATTACHING, _FOLDERS = "web/test_attachments_browser.py::", "web/test_folders.py::"
_LINK = "web/test_visitor_cases.py::test_a_revoked_link_withdraws_its_open_cards"
_CARDS = "stream/test_cards.py::"
_LIFE = "connections/test_lifecycle.py::"
_SKILLS_PAGE = "web/test_skills_browser.py::"
_DANGEROUS = "test_a_dangerous_skill_says_so_on_its_card_and_an_update_shows_its_difference"
_ACTIVITY: tuple[tuple[str, str, str], ...] = (
    (_ACT, "link that it came over", _LINK),
    (
        _ACT,
        "was {ending}|done, not checked",
        _TOLD + "test_what_was_done_says_whether_it_was_checked_and_names_the_files",
    ),
    (
        _ACT,
        "A skill was put before you",
        "skills/test_installing.py::test_a_yes_installs_what_the_card_showed",
    ),
    (
        _ACT,
        "files of the skill",
        "skills/test_attacks.py::test_files_changed_before_the_plan_is_bound_make_it_unusable",
    ),
    (
        _ACT,
        "skill . was not installed|was not installed. {reason}",
        "skills/test_attacks.py::test_a_trial_that_reaches_beyond_the_list_blocks_the_skill",
    ),
    (
        _ACT,
        "put the skill at",
        "skills/test_fetching.py::test_a_commit_that_is_not_there_is_told",
    ),
    (
        _ACT,
        "put the skill {skill}",
        "web/test_made_skills.py::test_a_made_skill_that_cannot_be_offered_is_told",
    ),
    (
        _ACT,
        "A connection was put before you",
        _LIFE + "test_a_no_leaves_it_proposed_and_runs_nothing",
    ),
    (
        _ACT,
        "tool server|tools of \\{server\\}",
        "mcp/test_attacks.py::test_a_rug_pull_quarantines_the_whole_server_and_shows_what_changed",
    ),
    (_ACT, "was not connected", _LIFE + "test_cancelled_at_the_password_nothing_is_left"),
    (
        _ACT,
        "does not work any more",
        "connections/test_scripts.py::test_what_a_check_finds_is_recovered_once_and_then_told",
    ),
    (
        "stream/activity.py",
        "I took back what you had allowed",
        "proactive/test_calibrator.py::test_an_owner_who_changes_his_habits_is_asked_more_soon",
    ),
    (
        "stream/activity.py",
        "I renewed the sign-in",
        "connections/test_sign_in.py::test_a_sign_in_that_is_hardly_used_is_kept_alive",
    ),
    (
        "web/static/connections.js",
        "Silas waits until",
        "connections/test_sign_in.py::test_a_code_that_nobody_enters_ends",
    ),
    (
        "web/static/connections.js",
        "Nothing is connected|Nothing uses|is removed, and",
        "web/test_connections_browser.py::test_a_mailbox_is_connected_allowed_more_and_removed",
    ),
    (
        "web/static/connections.js",
        "Nothing crosses from|Nothing that is read",
        "web/test_connections_browser.py::test_what_may_cross_is_asked_for_and_taken_back",
    ),
    (
        "web/static/connections.js",
        "not set up any more",
        _LIFE + "test_cancelled_at_the_password_nothing_is_left",
    ),
    (
        "web/static/connections.js",
        "stays as it was",
        (
            "connections/test_sign_in.py"
            "::test_more_is_granted_with_a_wider_sign_in_or_everything_stays_as_it_was"
        ),
    ),
    (
        "web/static/card_questions.js",
        "I would draft it from what was run",
        "skills/test_drafts.py::test_work_that_was_checked_becomes_a_skill_whose_trial_is_its_check",
    ),
    (
        "cli/work.py",
        "nothing that a plan could|did nothing in your accounts",
        "cli/test_work.py::test_work_that_did_nothing_in_accounts_has_nothing_to_take_back",
    ),
    (
        "web/static/companion_talk.js",
        "What it said here is forgotten",
        (
            "app/test_companion_talk.py"
            "::test_a_word_is_gone_from_the_conversation_its_search_and_every_byte"
        ),
    ),
    (_ACT, "I asked for", _TOLD + "test_work_and_cards_are_called_by_their_titles"),
    (_ACT, "Nothing since", _TOLD + "test_nothing_happened"),
    (
        _ACT,
        "put into the vault|kept nothing of it",
        "web/test_told_secrets.py::test_it_is_kept_nowhere_and_goes_to_the_vault",
    ),
    (
        _ACT,
        "shown at the terminal",
        "cli/test_secrets.py::test_a_value_is_printed_to_whoever_opens_the_vault",
    ),
    (
        _ACT,
        "removed from the vault",
        "cli/test_secrets.py::test_a_secret_is_removed_only_when_that_was_meant",
    ),
    (
        _ACT,
        "whether I may read",
        _PLACES + "test_a_place_is_asked_for_once_and_the_request_is_answered_after_the_yes",
    ),
    (_ACT, "I read nothing there", _PLACES + "test_a_place_is_closed_and_asked_about_anew"),
    (
        _ACT,
        "opened the vault with its passphrase",
        "web/test_locked.py::test_the_right_passphrase_opens_it_and_the_code_still_pairs",
    ),
    (
        _ACT,
        "not approved|was cancelled|not begun|in time",
        "stream/test_goals.py::test_a_repair_that_nobody_decided_was_not_declined",
    ),
    (_ACT, "sent back", _CHANGES),
    (
        _ACT,
        "was interrupted",
        "work/test_recovery.py::test_an_interrupted_attempt_is_followed_by_a_fresh_one",
    ),
    (
        _ACT,
        r"\A{work_item_id} was (?:paused|resumed)",
        "work/test_recovery.py::test_the_owners_pause_survives_the_crash",
    ),
    (_ACT, "waits for your decision", _WAITS),
    (_ACT, "nothing was signed", _CARDS + "test_a_card_that_is_changed_while_the_owner_reads_it"),
    (_ACT, "approval was", _CARDS + "test_a_no_turned_into_a_yes"),
    (_ACT, "did not sign", _CARDS + "test_a_decision_without_a_signature"),
    (_ACT, "did not ask for", "app/test_owned_memory.py::test_a_no_on_the_card_leaves_it"),
    (
        _ACT,
        "what I remember",
        "app/test_owned_memory.py::test_finding_6_nice_weather_and_thanks_change_nothing",
    ),
    (
        _ACT,
        "wish about your journal",
        "stream/test_journal_ops.py::test_the_owner_wishes_and_the_runtime_tells",
    ),
    (_ACT, "as such|as yours", "stream/test_turn.py::test_who_is_speaking"),
    (_ACT, "faster than", "stream/test_metrics.py::test_fast_decisions_of_low_risk_are_no_sign"),
    (
        _ACT,
        "gate stopped|call of {tool}",
        "companions/test_gating.py::test_what_passes_is_written_and_in_the_audit_log",
    ),
    (
        _ACT,
        "I was (?:started|stopped)",
        "cli/test_start.py::test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs",
    ),
    (_ACT, "device was", "approval/test_devices.py::test_what_is_written_down"),
    (_ACT, "passkey was", "approval/test_passkey_refusals.py::test_what_is_written_down"),
    (_ACT, "Companions (?:were|that)", _CONTROL + "test_a_switch_survives_a_restart"),
    (
        _ACT,
        "called off",
        (
            "companions/test_cancel.py::"
            "test_a_write_that_has_passed_every_check_is_not_made_after_a_cancel"
        ),
    ),
    (
        _ACT,
        "how a companion speaks",
        "companions/test_persona.py::test_a_proposal_is_not_in_use_until_the_owner_approves_it",
    ),
    (
        _ACT,
        "companion was (?:made|configured)",
        _CONTROL + "test_what_cannot_be_set_is_refused_whole",
    ),
    (
        _ACT,
        "companion was (?:paused|resumed)",
        _CONTROL + "test_a_paused_companion_does_nothing_until_it_is_resumed",
    ),
    (_ACT, "for good", _CONTROL + "test_destroying_ends_what_waits_and_refuses_what_is_stale"),
)
_JS = "web/static/"
_JOURNAL_FILES = "web/test_journal_files.py::"
_RESULTS = "web/test_results_browser.py::"
_FIRST_RUN = "web/test_first_run.py::"
_VISIT_PAGE = "web/test_visitors_browser.py::test_the_owner_sees_the_visitors_answers_and_revokes"
_PAGE: tuple[tuple[str, str, str], ...] = (
    (
        _JS + "activity.js",
        "Nothing has",
        "web/test_browser.py::test_on_a_phone_from_pairing_to_the_checked_result",
    ),
    (
        _JS + "app.js",
        "waits for your",
        "web/test_browser.py::test_a_card_that_is_decided_elsewhere_is_gone",
    ),
    (
        _JS + "review.js",
        "decisions wait",
        "stream/test_metrics.py::test_more_than_five_risky_decisions_are_a_crowd",
    ),
    (_JS + "card.js", "until", _CARDS + "test_who_lets_a_result_stand_has_declined_nothing"),
    (
        _JS + "card.js",
        "no longer there",
        _CARDS + "test_a_card_whose_items_are_not_its_own_is_not_shown",
    ),
    (
        _JS + "card_diff.js",
        "Nothing has changed",
        "web/test_browser.py::test_whatever_differs_between_two_plans_is_told",
    ),
    (
        _JS + "card_files.js",
        "when this card",
        "web/test_previews_browser.py::test_the_first_card_shows_the_difference",
    ),
    (
        _JS + "card_secret.js",
        "not asked for any more",
        (
            "web/test_told_secrets.py::"
            "test_the_card_is_there_again_after_a_restart_and_its_value_never_was"
        ),
    ),
    (
        _JS + "card_secret.js",
        "stored|to store",
        "web/test_http.py::test_only_what_was_asked_for_is_stored_and_once",
    ),
    (
        _JS + "deciding.js",
        "Nothing was decided",
        "web/test_door.py::test_a_replayed_decision_does_nothing",
    ),
    (
        _JS + "passkeys.js",
        "not used|cannot be undone",
        "web/test_passkeys.py::test_a_person_who_is_not_recognised",
    ),
    (_JS + "passkeys.js", "is removed", "approval/test_passkey_refusals.py::test_revoked_ones"),
    (
        _JS + "companion.js",
        "being done|waits for your answer",
        "companions/test_workflow.py::test_dependent_actions_wait_for_the_answer",
    ),
    (
        _JS + "companion_new.js",
        "nothing leaves",
        "companions/test_policy.py::test_no_gateway_means_no_way_out",
    ),
    (
        _JS + "companion_persona.js",
        "different",
        "web/test_companion_page.py::test_a_persona_is_proposed_declined_and_approved",
    ),
    (
        _JS + "companion_times.js",
        "different",
        "web/test_companion_page.py::test_when_it_wakes_by_the_clock_is_set_in_the_page",
    ),
    (
        _JS + "companion_trust.js",
        "forgets",
        _CONTROL + "test_who_loses_a_category_forgets_what_was_said_in_it",
    ),
    (
        _JS + "companion_trust.js",
        "no limit",
        "web/test_companion_page.py::test_a_budget_and_what_it_sees_are_set_in_the_page",
    ),
    (
        _JS + "companions.js",
        "Stopped|Nothing is begun|goes on",
        "web/test_companions_browser.py::test_one_of_many_is_found_by_name",
    ),
    (
        _JS + "journal_files.js",
        "Nothing was changed|in yet|here already",
        _JOURNAL_FILES + "test_a_file_is_counted_first_and_then_taken_in_once",
    ),
    (
        _JS + "journal_*.js",
        "these words|rated|deleted|pinned",
        "web/test_journal_browser.py::test_a_day_with_the_journal",
    ),
    (
        _JS + "journal_time.js",
        "planned or done",
        "web/test_journal.py::test_the_tasks_of_the_last_weeks",
    ),
    (
        _JS + "usage.js",
        "in use right now",
        "web/test_usage.py::test_each_limit_that_is_in_use_has_a_meter",
    ),
    (_JS + "onboarding.js", "before you say yes", "web/test_conversation.py::test_no_means_no"),
    (
        _JS + "results.js",
        "empty|printed",
        _RESULTS + "test_what_a_command_printed_is_shown_and_opens_whole",
    ),
    (
        _JS + "settings.js",
        "shapes words",
        (
            "personality/test_personality.py::"
            "test_a_broken_state_gives_a_neutral_manner_and_stops_no_turn"
        ),
    ),
    (
        _JS + "settings.js",
        "while this page",
        "web/test_browser.py::test_a_card_that_is_decided_elsewhere_is_gone",
    ),
    (
        _JS + "setup.js",
        "Nothing leaves",
        _FIRST_RUN + "test_four_taps_with_a_model_of_this_machine_and_never_again",
    ),
    (
        _JS + "stream.js",
        "I plan, you|No model is set",
        "work/test_wording.py::test_done_and_checked_is_said_only_with_a_proof",
    ),
    (_JS + "visitors.js", "opens nothing|Nobody|Nothing", _VISIT_PAGE),
    (
        _JS + "companion_talk.js",
        "said here is forgotten",
        (
            "app/test_companion_talk.py::"
            "test_a_word_is_gone_from_the_conversation_its_search_and_every_byte"
        ),
    ),
    (
        _JS + "companion_talk.js",
        "nothing",
        "companions/test_conversation.py::test_a_run_with_nothing_to_say_is_no_news",
    ),
    (
        _JS + "programs.js",
        "may ask no more|A card waits|Nothing: it asks",
        "web/test_proposals_browser.py::test_programs_are_added_seen_asked_less_and_removed",
    ),
    (
        _JS + "attaching.js",
        "stays a file|was removed",
        _ATTACHING + "test_a_long_pasted_text_becomes_a_file_and_can_stay_a_text",
    ),
    (
        _JS + "conversations.js",
        "Nothing was said|What was said here goes",
        "web/test_conversations_browser.py::test_rename_and_delete",
    ),
    (
        _JS + "memory.js",
        "Nothing|Undone|cannot be undone",
        "web/test_memory_browser.py::test_memory_is_seen_put_right_and_forgotten",
    ),
    ("cli/review.py", "Nothing suspicious", _SKILLS_PAGE + _DANGEROUS),
    (
        "cli/review.py",
        "What would be done",
        "mcp/test_attacks.py::test_no_and_nothing_starts_nothing",
    ),
    (
        "cli/companions_changes.py",
        "what waited for it",
        "companions/test_conversation.py::test_yes_in_words_is_the_answer_and_what_waits_goes_on",
    ),
    (
        "companions/service.py",
        "keeps nothing like",
        _KEPT + "test_what_is_kept_is_shown_and_let_go_by_words_or_by_a_tap",
    ),
    (
        _JS + "servers.js",
        "Nothing of it is started",
        "mcp/test_attacks.py::test_no_and_nothing_starts_nothing",
    ),
    (
        _JS + "servers.js",
        "approved it|is removed|are not run",
        _SERVERS + "test_a_server_is_asked_for_looked_at_and_its_tools_get_effects",
    ),
    (
        _JS + "skills.js",
        "files are erased|is removed|Nothing uses|Nothing fits",
        _SKILLS_PAGE + "test_a_skill_is_read_approved_used_and_removed",
    ),
    (
        _JS + "skills.js",
        "Nothing is installed before|is as it was before",
        "skills/test_installing.py::test_a_changed_byte_is_another_version_with_its_own_card",
    ),
    (
        _JS + "card_skill.js",
        "Nothing suspicious",
        _SKILLS_PAGE + _DANGEROUS,
    ),
    (
        _JS + "card_skill.js",
        "not the file that would be signed",
        _SKILLS_PAGE + "test_a_file_that_is_not_the_one_that_is_signed_is_not_shown",
    ),
    (
        _JS + "pairing.js",
        "without the passphrase",
        "web/test_locked.py::test_health_and_the_page_answer_and_nothing_else_works",
    ),
    (
        _JS + "settings.js",
        "changes nothing",
        _FOLDERS + "test_a_folder_is_opened_from_the_conversation_and_closed_in_the_settings",
    ),
    ("cli/visitors.py", "opens nothing|Nobody|Nothing", _LINK),
    (
        "stream/cases.py",
        "was asked|gate {}",
        "web/test_visitor_cases.py::test_nobody_is_told_of_a_person_when_no_person_would_see_it",
    ),
)
_COMPANIONS: tuple[tuple[str, str, str], ...] = (
    (
        "cli/companions*.py",
        "Nothing was|no timer|called like",
        "cli/test_companions.py::test_names_that_fit_nobody_or_several_do_nothing",
    ),
    (
        "cli/companions.py",
        "Nothing is waiting",
        "cli/test_companions.py::test_from_the_first_to_the_last",
    ),
    (
        "cli/companions_changes.py",
        "Nothing is stopped",
        "cli/test_companions.py::test_stopping_holds_until_it_is_released",
    ),
    (
        "cli/companions_changes.py",
        "It wakes",
        "companions/test_wake.py::test_restart_recovery_for_queued_wakes",
    ),
    (
        "cli/companions_changes.py",
        "no model",
        "companions/test_policy.py::test_no_gateway_means_no_way_out",
    ),
    (
        "companions/errors.py",
        "called off",
        "companions/test_cancel.py::test_a_cancelled_run_is_not_begun_again_after_a_crash",
    ),
    (
        _JS + "companion_talk.js",
        "said here is forgotten",
        "app/test_companion_talk.py::test_a_word_is_gone_from_the_conversation_its_search_and_every_byte",
    ),
    (
        "companions/operations.py",
        "was forgotten",
        "companions/test_erasure.py::test_a_word_is_gone_from_every_table_and_file",
    ),
    (
        _JS + "companion_care.js",
        "receipt says|companion itself|This stays",
        "companions/test_erasure.py::test_a_companion_is_forgotten_whole",
    ),
    (
        "stream/activity.py",
        "was given version",
        "companions/test_rollout.py::test_a_new_version_runs_for_one_is_compared_and_taken_back",
    ),
    (
        "cli/companions_changes.py",
        "was said|holds this word|was found|What stays",
        "cli/test_companions.py::test_what_is_forgotten_is_shown_first_and_leaves_a_receipt",
    ),
    (
        _JS + "companion_care.js",
        "was found",
        "cli/test_companions.py::test_what_is_forgotten_is_shown_first_and_leaves_a_receipt",
    ),
    (
        "companions/operations.py",
        "needs your approval",
        _CONTROL + "test_without_approvals_nothing_that_needs_one_is_done",
    ),
    (
        "companions/operations.py",
        "before\\. Nothing",
        (
            "companions/test_forgery.py::"
            "test_a_replay_of_another_run_s_operation_id_tells_and_does_nothing"
        ),
    ),
    (
        "companions/operations.py",
        "wait for you",
        "companions/test_actions.py::test_nobody_is_asked_about_more_than_a_person_can_look_at",
    ),
    (
        "companions/gateway.py",
        "meanwhile",
        _CONTROL + "test_a_model_that_was_taken_away_is_not_asked_again_by_a_run",
    ),
    (
        "companions/gateway.py",
        "has no target",
        _CONTROL + "test_a_switch_for_nothing_cannot_be_set",
    ),
    (
        "companions/gateway.py",
        "[Nn]othing was sent",
        (
            "companions/test_policy.py::"
            "test_inference_with_disallowed_provider_or_model_fails_with_no_outbound_request"
        ),
    ),
    (
        "companions/projection.py",
        "[Nn]othing was sent",
        (
            "companions/test_policy.py::"
            "test_inference_with_disallowed_provider_or_model_fails_with_no_outbound_request"
        ),
    ),
    (
        "companions/resumption.py",
        "any more",
        "companions/test_workflow.py::test_the_questions_of_a_destroyed_companion_end_with_it",
    ),
    (
        "companions/service.py",
        "no model any more",
        "companions/test_policy.py::test_whose_model_is_gone_can_still_be_configured",
    ),
    (
        "companions/service.py",
        "sends nothing",
        "companions/test_absent_means_no.py::test_a_companion_without_a_model_asks_none",
    ),
    (
        "companions/timers.py",
        "Nothing was changed",
        "companions/test_timers.py::test_intents_that_cannot_be",
    ),
    (
        "companions/tools/executor.py",
        "gate",
        "companions/test_gating.py::test_a_gate_that_says_no_stops_the_write",
    ),
    (
        "companions/wake/worker.py",
        "while it ran",
        _CONTROL + "test_who_loses_a_category_forgets_what_was_said_in_it",
    ),
    (
        "companions/wake/worker.py",
        "was begun",
        "companions/test_wake.py::test_a_run_that_takes_the_process_down_is_not_begun_for_ever",
    ),
    (
        "companions/workflow.py",
        "Nothing was done",
        "companions/test_forgery.py::test_a_forged_action_plan_row_is_not_carried_out",
    ),
)

FAMILIES: tuple[tuple[str, str, str], ...] = (
    # Done, and what shows it.
    ("work/wording.py", "Done", _WORDING + "test_done_and_checked_is_said_only_with_a_proof"),
    ("work/wording.py", "Nothing will show", _WORDING + "test_work_that_nothing_will_show_says_so"),
    (
        "work/project.py",
        "All tasks are done",
        "work/test_project.py::test_work_that_nothing_has_shown_holds_up_what_depends_on_it",
    ),
    ("work/project.py", "wait for each other", "work/test_project.py::test_a_cycle_is_blocked"),
    (
        "work/execution.py",
        "done before|had passed",
        "work/test_replays.py::test_what_is_being_done_is_not_begun_beside_it",
    ),
    (
        "work/publication.py",
        "nothing is taken over",
        "work/test_delivery.py::test_what_then_fails_is_not_taken_over",
    ),
    (
        "work/publication.py",
        "by the owner",
        "work/test_recovery.py::test_what_the_owner_stopped_after_the_crash_is_not_taken_over",
    ),
    (
        "work/delivery.py",
        "left out|nothing can be delivered",
        "work/test_delivery.py::test_what_fails_after_the_wait_is_not_taken_over",
    ),
    (
        "cli/work.py",
        "changed and removed nothing|removed|kept",
        "cli/test_work.py::test_what_was_removed_is_written_to_a_new_directory",
    ),
    # Stopped, cancelled, waiting.
    (
        "work/execution.py",
        "worked on",
        "work/test_control.py::test_two_runners_never_run_one_task_at_once",
    ),
    ("work/execution.py", "waits|waited|paused by", _WAITS),
    (
        "work/execution.py",
        "cancelled|by the owner|stopped",
        "work/test_control.py::test_stopping_silas_itself_leaves_the_task_waiting",
    ),
    ("work/goal.py", "waits", "stream/test_goals.py::test_a_used_up_approval_asks_once_and_rests"),
    (
        "work/goal.py",
        "Nothing is proposed here",
        "work/test_goal.py::test_where_nobody_proposes_a_goal_for_items_says_so",
    ),
    ("work/goal.py", "nothing is left", "work/test_cancelled.py::test_what_repairs_used_is_gone"),
    (
        "stream/resuming.py",
        "rests|does not cover",
        "stream/test_goals.py::test_a_used_up_approval_asks_once_and_rests",
    ),
    (
        "stream/resuming.py",
        "in time|taken over|not made",
        "stream/test_expired_calls.py::test_the_owner_is_told_once_what_expired_and_what_now",
    ),
    (
        "cli/work.py",
        "running|stopped|has not stopped",
        "work/test_cancelled.py::test_a_cancelled_goal_stays_cancelled",
    ),
    ("cli/work.py", "waits", "cli/test_work_waiting.py::test_nothing_waits"),
    (
        "cli/work.py",
        "goes on",
        "cli/test_work_waiting.py::test_what_waits_is_shown_whole_and_approved_by_its_hash",
    ),
    ("cli/work.py", "tried yet|executed", "cli/test_work.py::test_list_show_and_log"),
    # What stands in accounts.
    ("stream/accounts.py", "failed lately", _USES + "test_ci_is_told_for_a_repository"),
    ("stream/accounts.py", "is in", _USES + "test_an_event_is_looked_at_and_moved"),
    (
        "stream/accounts.py",
        "today",
        "stream/test_accounts.py::test_a_briefing_says_what_happens_today",
    ),
    (
        "stream/accounts.py",
        "unread",
        "stream/test_accounts.py::test_a_briefing_says_what_it_could_not_look_at",
    ),
    ("stream/accounts.py", "shown last", _USES + "test_mail_is_found_read_and_answered"),
    (
        "stream/accounts.py",
        "do not understand",
        "stream/test_accounts.py::test_an_answer_of_another_form_is_not_understood",
    ),
    (
        "stream/accounts.py",
        "was changed",
        "stream/test_accounts.py::test_a_tool_that_is_gone_is_said_to_be",
    ),
    (
        "stream/accounts.py",
        "goes on",
        "stream/test_accounts.py::test_a_mail_is_said_to_go_on_only_if_it_does",
    ),
    # Tried, given up, another way.
    (
        "stream/healing.py",
        "another way|by myself",
        _FLOWS + "test_failure_retry_consult_replan_escalate",
    ),
    ("stream/healing.py", "goes on when", _WAITS),
    (
        "stream/offers.py",
        "have tried",
        _FLOWS + "test_a_planner_without_another_idea_escalates_at_once",
    ),
    (
        "stream/steps/plans.py",
        "no other way",
        "sentences/test_said.py::test_who_found_no_other_way_announces_no_plan",
    ),
    (
        "stream/loops/runtime.py",
        "not try it again",
        "sentences/test_said.py::test_what_is_given_up_at_once_is_not_said_to_have_been_tried_often",
    ),
    # Asked, approved, begun.
    ("stream/cards.py", "stopped before|do not begin", _BEGUN),
    (
        "stream/cards.py",
        "I am starting|approved|Nothing of it|plan again|its text",
        _FLOWS + "test_a_declined_plan_is_not_executed",
    ),
    ("cli/review.py", "stopped meanwhile", _BEGUN),
    (
        "cli/review.py",
        "Nothing is waiting",
        "cli/test_work_waiting.py::test_nothing_is_said_to_wait_for_nobody_while_something_does",
    ),
    ("cli/plan.py", "Not approved", "cli/test_plan_run.py::test_a_no_executes_nothing"),
    # The server, backups, the log.
    (
        "cli/start.py",
        "is running|is locked",
        "cli/test_start.py::test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs",
    ),
    (
        "cli/status.py",
        "locked|vault is open",
        "cli/test_start.py::test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs",
    ),
    (
        "cli/status.py",
        "running|stopped",
        "cli/test_start.py::test_a_server_that_does_not_answer_can_be_ended",
    ),
    ("cli/backup.py", "void", "cli/test_backup.py::test_people_are_told_about_void_approvals"),
    (
        "cli/backup.py",
        "repeat an old one",
        "cli/test_backup.py::test_a_message_that_was_used_cannot_be_used_again_after_a_restore",
    ),
    (
        "cli/backup.py",
        "Restored|kept",
        "cli/test_backup.py::test_everything_comes_back_on_another_machine",
    ),
    (
        "cli/audit_files.py",
        "written|begin",
        "cli/test_audit.py::test_the_short_form_claims_only_what_it_examined",
    ),
    (
        "stream/offers.py",
        "Put back",
        _REVIEW + "test_it_puts_back_what_was_there_and_checks_it",
    ),
    ("stream/offers.py", "asked for changes", _CHANGES),
    (
        "proactive/autonomy.py",
        "nothing to take back",
        _CALIBRATOR + "test_what_it_tells_and_takes_back",
    ),
    (
        "proactive/calibrator.py",
        "Nothing was changed",
        _CALIBRATOR + "test_an_answer_that_is_a_no_or_too_late_changes_nothing",
    ),
    (
        "proactive/calibrator.py",
        "sure of",
        _CALIBRATOR + "test_the_band_is_widened_on_what_would_be_new_in_it",
    ),
    (
        "proactive/grants.py",
        "was taken back",
        _GRANTS + "test_a_later_end_and_never_beyond_ninety_days",
    ),
    ("proactive/grants.py", "decided too long ago", _GRANTS + "test_a_no_gives_nothing"),
    (
        "proactive/grants.py",
        "to somebody else",
        _GRANTS + "test_one_more_recipient_by_a_token_of_its_own",
    ),
    (
        "proactive/grants.py",
        "times, unchanged",
        _GRANTS + "test_a_no_or_a_change_is_no_habit",
    ),
    (
        "proactive/suggestions.py",
        "does not hold any more",
        "proactive/test_unasked.py::test_cards_that_end_undecided_and_goals_that_do_not_get_on",
    ),
    (
        "web/static/card_questions.js",
        "tell you where to look",
        "proactive/test_unasked.py::test_cards_that_end_undecided_and_goals_that_do_not_get_on",
    ),
    (
        "proactive/suggestions.py",
        "times lately",
        _REVIEW + "test_what_a_stranger_wanted_again_and_again_is_no_habit",
    ),
    (
        "stream/offers.py",
        "each of one task",
        _REVIEW + "test_what_is_risky_is_decided_by_itself",
    ),
    ("stream/cards.py", "is stopped", _ABORT),
    (
        "cli/work.py",
        "Of which attempt",
        "work/test_undo_calls.py::test_a_number_that_two_attempts_have_is_asked_about",
    ),
    (
        "web/static/results.js",
        "It stays here",
        "stream/test_flows.py::test_an_approved_letter_leaves_when_the_window_is_over_unless_it_is_kept",
    ),
    (
        "stream/steps/plans.py",
        "Nothing runs|take back",
        "web/test_ordinary_requests.py::test_stop_and_undo_that_can_be_said",
    ),
    ("stream/steps/plans.py", "to stop|plan again|work list|which work", _ABORT),
    (
        "stream/steps/plans.py",
        "stays sent back",
        _PLANNED + "test_a_plan_that_cannot_be_changed_is_not_called_failed",
    ),
    (
        "stream/steps/plans.py",
        "nobody here",
        "stream/test_liars.py::test_without_reviews_no_plan_is_taken",
    ),
    (
        "stream/healing.py",
        "I started",
        "stream/test_replays.py::test_what_is_blocked_at_the_door_is_not_said_to_be_started",
    ),
    ("cli/review.py", "No such call waits", _LISTED),
    (
        "cli/work.py",
        "Nothing can wait",
        "work/test_paused.py::test_nobody_can_wait_where_nothing_is_kept",
    ),
    *_ACTIVITY,
    *_PAGE,
    *_COMPANIONS,
)
