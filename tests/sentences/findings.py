"""What annoyed people in their first hour with Silas, and the tests that show that it is mended.

Each finding is told in a sentence as it was; each part of it has the test that would fail if it
came back. `test_findings.py` fails if one of these tests is not there.
"""

_CHAT, _START = "cli/test_chat.py::", "cli/test_start.py::"
_WISHES, _ORDINARY = "app/test_first_wishes.py::", "web/test_ordinary_requests.py::"
_WORDING, _TOLD = "work/test_wording.py::", "stream/test_activity.py::"
_LOCKED, _SETUP = "web/test_locked.py::", "web/test_onboarding.py::"
_FIRST_RUN, _ROOM = "web/test_first_run.py::", "web/test_room_browser.py::"
_INPUT, _HOUR = "cli/test_bad_input.py::", "web/test_first_hour_browser.py::test_a_first_hour"

FINDINGS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (
        1,
        "What a command printed was shown nowhere, and a failed check did not say what came.",
        (
            _CHAT + "test_what_a_command_printed_is_shown",
            _CHAT + "test_of_a_command_that_fails_the_last_lines_are_shown",
            "web/test_results_browser.py::test_what_a_command_printed_is_shown_and_opens_whole",
            "cli/test_work_report.py::test_of_a_check_that_fails_its_output_is_shown",
            "work/test_output.py::test_a_failed_check_comes_first_and_is_not_the_owners_word",
        ),
    ),
    (
        2,
        "“Checked” was said where nothing was checked.",
        (
            _CHAT + "test_what_nothing_has_shown_is_not_said_to_be_checked",
            _TOLD + "test_what_was_done_says_whether_it_was_checked_and_names_the_files",
            _WORDING + "test_done_and_checked_is_said_only_with_a_proof",
            _HOUR,
        ),
    ),
    (
        3,
        "From the second request on, everything was of high risk.",
        (
            _ORDINARY + "test_twenty_requests_of_an_ordinary_day_without_a_model",
            _ORDINARY + "test_what_is_said_exactly_is_the_owners_whatever_was_read_before",
            _ORDINARY + "test_a_page_that_a_search_found_is_named_on_the_card",
            "work/test_toolcalls.py::test_taint_follows_what_was_read_and_not_that_a_folder_is_not_empty",
        ),
    ),
    (
        4,
        "With a model, one plan closed the journal to its owner.",
        (
            _ORDINARY + "test_twenty_requests_of_an_ordinary_day_with_a_model",
            "stream/test_journal_ops.py::test_what_a_stranger_said_earlier_does_not_refuse_the_owners_own_wish",
        ),
    ),
    (
        5,
        "A watch could not be stopped, listed or named.",
        (
            _ORDINARY + "test_a_watch_ends_by_the_owners_exact_words_and_not_by_a_models",
            _WISHES + "test_watches_speak_in_words_and_all_are_stopped_at_once",
            "work/test_cancelled.py::test_a_cancelled_goal_stays_cancelled",
            "stream/test_goals.py::test_a_cancelled_goal_is_never_started_again",
            _HOUR,
        ),
    ),
    (
        6,
        "Pairing froze Silas behind a prompt that nobody saw; without a terminal it never opened.",
        (
            _START + "test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs",
            _LOCKED + "test_health_and_the_page_answer_and_nothing_else_works",
            _LOCKED + "test_the_page_asks_for_it_and_goes_on",
            "cli/test_init.py::test_the_first_start_sets_up_and_asks_for_the_passphrase_once",
        ),
    ),
    (
        7,
        "A model made exact requests slower and worse.",
        (
            _ORDINARY + "test_what_is_said_exactly_needs_no_model",
            "stream/test_reading_with_models.py::test_what_is_said_to_the_letter_is_read_without_the_model",
            _HOUR,
        ),
    ),
    (
        8,
        "A plan was shown as a difference to one that it had nothing to do with.",
        (
            "stream/test_review.py::test_only_what_was_made_from_a_plan_is_another_version_of_it",
            _HOUR,
        ),
    ),
    (
        9,
        "“Ask for changes” asked nothing.",
        (
            "web/test_changes_browser.py::test_a_plan_is_changed_in_words_in_the_folder_that_was_picked",
            "web/test_planned_work.py::test_ask_for_changes_brings_a_revised_plan_as_often_as_wanted",
            "cli/test_in_a_folder.py::test_changes_come_back_as_a_revised_plan",
        ),
    ),
    (
        10,
        "Nothing could be looked at without a plan, and nothing sent along.",
        (
            "stream/test_reading_with_models.py::test_the_offline_brain_reads",
            "stream/test_reading_with_models.py::test_a_model_that_calls_tools_reads_what_is_open_and_asks_for_the_rest",
            "stream/test_places.py::test_the_home_folder_is_named_by_its_name",
            "web/test_folders.py::test_a_folder_is_opened_from_the_conversation_and_closed_in_the_settings",
            "web/test_attachments_browser.py::test_chosen_dropped_and_pasted_files_go_along",
        ),
    ),
    (
        11,
        "Whatever was not understood got the same eleven lines, which then filled the context.",
        (
            _WISHES + "test_what_is_not_understood_is_one_line",
            _WISHES + "test_help_does_not_fill_the_context_of_a_model",
        ),
    ),
    (
        12,
        "“What did you do?” and Activity spoke in ids, and nothing there could be opened.",
        (
            _TOLD + "test_no_ids_are_told",
            _TOLD + "test_a_long_night_is_a_few_lines_and_says_so",
            _TOLD + "test_work_and_cards_are_called_by_their_titles",
            _TOLD + "test_a_watch_that_fails_is_bad_news",
            _WISHES + "test_what_was_done_is_told_in_words",
            "web/test_activity.py::test_what_happened_can_be_opened",
        ),
    ),
    (
        13,
        "States were wrong: replaced and declined was failed, edited was made, attempt 5 of 2.",
        (
            _WORDING + "test_what_never_ran_did_not_fail",
            _WORDING + "test_nothing_is_the_fifth_attempt_of_two",
            _WORDING + "test_files_are_listed_taken_and_left",
            _TOLD + "test_a_watch_says_how_it_was_found",
            "web/test_planned_work.py::test_a_plan_that_cannot_be_changed_is_not_called_failed",
        ),
    ),
    (
        14,
        "Approving at a terminal was JSON and one exact word; every look wanted the passphrase.",
        (
            _CHAT + "test_the_card_is_in_words_and_the_bytes_are_shown_when_asked_for",
            _CHAT + "test_what_means_yes",
            "channels/test_replies.py::test_yes",
            "cli/test_review_questions.py::test_what_waits_is_listed_without_the_passphrase_while_silas_runs",
        ),
    ),
    (
        15,
        "Watches spoke badly, again and again, and never said that it works again.",
        (
            _WISHES + "test_watches_speak_in_words_and_all_are_stopped_at_once",
            "stream/test_goals.py::test_a_goal_that_reports_does_so_once_and_plans_nothing",
        ),
    ),
    (
        16,
        "Tasks were written down half, and reminders and lists were not understood.",
        (
            _WISHES + "test_a_task_that_repeats_is_written_whole",
            _WISHES + "test_reminders_are_set_listed_told_and_cancelled",
            _WISHES + "test_several_tasks_are_written_down_at_once",
            "stream/test_own_words.py::test_several_tasks_are_asked_for_at_once",
        ),
    ),
    (
        17,
        "`silas` could not be typed as it is printed, and commands of the README did not work.",
        ("sentences/test_readme.py::test_the_commands_of_the_readme_work_in_its_order",),
    ),
    (
        18,
        "In the page, few models could be chosen, none by its address, and errors spoke in codes.",
        (
            _SETUP
            + "test_every_provider_is_offered_with_what_it_needs_and_an_empty_key_is_not_tried",
            _SETUP + "test_any_address_can_be_chosen_and_gets_no_other_servers_key",
            _SETUP + "test_a_server_that_does_not_answer_is_not_called_a_wrong_key",
            _FIRST_RUN
            + "test_a_server_that_starts_later_is_found_by_looking_again_or_by_its_address",
            _HOUR,
        ),
    ),
    (
        19,
        "The name that was asked for was put into one's mouth and then not known.",
        (
            _FIRST_RUN + "test_four_taps_with_a_model_of_this_machine_and_never_again",
            _WISHES + "test_the_name_is_known_and_what_is_remembered_is_listed",
            "web/test_memory.py::test_the_name_that_was_given_is_known",
        ),
    ),
    (
        20,
        "Nothing stopped a running answer, and nothing said how far it was.",
        (
            "web/test_answering_browser.py::test_an_answer_grows_survives_a_reload_and_stops",
            "web/test_answering_browser.py::test_another_message_does_not_hide_the_stage",
            "web/test_companions_browser.py::test_one_tap_stops_them_all_from_every_screen",
            _HOUR,
        ),
    ),
    (
        21,
        "Cards scrolled inside themselves, and things reached beyond the edges of a phone.",
        (
            _ROOM + "test_a_long_plan_scrolls_with_its_surface_alone",
            _ROOM + "test_on_a_phone_every_surface_stays_within_the_edges",
        ),
    ),
    (
        22,
        "Companions: a wish looked like an error, blocks named no task, two had one name.",
        (
            "web/test_companion_page.py::test_a_question_is_answered_and_a_claim_leads_to_its_source",
            "companions/test_reports.py::test_a_block_of_the_day_is_called_by_its_task",
            "cli/test_companions.py::test_a_second_one_of_a_kind_gets_a_name_of_its_own",
            "cli/test_companions.py::test_the_former_name_still_works_and_says_the_new_one",
            "cli/test_companions.py::test_from_the_first_to_the_last",
        ),
    ),
    (
        23,
        "Work was committed to the owner's branch as Silas, unsaid; a line was shown as two texts.",
        (
            "work/test_previews.py::test_a_commit_to_the_owners_repository_is_said_before_the_yes",
            "work/test_repository.py::test_the_owner_is_the_author_and_silas_the_committer",
            "web/test_previews_browser.py::test_the_first_card_shows_the_difference",
        ),
    ),
    (
        24,
        "One endless conversation, no search, no look at memory; a password was just kept.",
        (
            "web/test_conversations_browser.py::test_new_list_switch_and_reload",
            "web/test_conversations_browser.py::test_search_opens_the_message_and_the_work",
            "web/test_memory_browser.py::test_memory_is_seen_put_right_and_forgotten",
            "web/test_told_secrets.py::test_it_is_kept_nowhere_and_goes_to_the_vault",
            "web/test_persona.py::test_the_manner_in_settings",
            _HOUR,
        ),
    ),
    (
        25,
        "The passphrase's rule came too late, a reload lost the code, a banner, ids in messages.",
        (
            "cli/test_init.py::test_on_a_terminal_it_explains_and_asks_for_a_passphrase",
            _LOCKED + "test_pairing_survives_a_reload_and_ends_with_it",
            "agents/models/test_words.py::test_no_library_prints_a_banner_of_its_own",
            "cli/test_metrics.py::test_on_a_fresh_machine_there_is_little_to_measure",
            "stream/test_cards.py::test_it_is_decided_once",
        ),
    ),
    (
        26,
        "At the terminal: no “did you mean”, a missing file was told last, no id to go on with.",
        (
            _INPUT + "test_a_mistyped_command_is_answered_with_the_one_that_was_meant",
            _INPUT + "test_a_missing_proof_is_said_to_be_missing_before_anything_is_asked_for",
            _CHAT + "test_where_nobody_can_be_asked_the_command_is_named",
            "cli/test_backup.py::test_people_are_told_about_void_approvals",
        ),
    ),
)

ODD = (
    "What shall I do?",
    "Who shall think for me?",
    "I begin.",
    "step was executed",
    "the file is as wished",
    "I do nothing about it.",
    "It was so already.",
    "I forget: ",
    "Nothing waits for you",
    "What shall become of",
    "everything that I may try by myself",
    "It has heard you.",
    "it could be what wished for it",
    "Nothing is no limit.",
    "Take it along",
    "Bring one in",
    "in place of the number",
    "The vault opens with passphrase.",
    "in use, by its kind",
    "to the letter",
    "Standing goal",
    "will not be taken for yours",
    "chips could say more",
    "check directory",
    "not approved (edit_requested)",
    "made with tap",
)
"""Words of the product that people stumbled over; none of them is said any more."""

_REPORTS, _SAID = "stream/test_reports.py::", "sentences/test_said.py::"
_TROUBLES = "companions/test_troubles.py::"
_FILES = "test_a_report_lists_the_files_that_were_taken_over_and_those_that_were_left"
_FILED = "test_what_a_model_writes_is_filed_under_the_scope_of_its_kind"
_ERASED = "test_who_loses_a_category_forgets_its_traces_reports_and_tombstones_as_well"
_LEARNT = "test_what_nobody_decided_and_an_undo_that_was_not_wanted_teach_nothing"
UNTRUE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "The audit log is as it was written.",
        "only what came after the last checkpoint had been read",
        "",
        ("cli/test_audit.py::test_the_short_form_claims_only_what_it_examined",),
    ),
    (
        "Done and checked",
        "the plan had no checks",
        "its checks passed",
        (_WORDING + "test_done_and_checked_is_said_only_with_a_proof",),
    ),
    (
        "made notes/hours.txt",
        "the file was not among the owner's",
        "",
        (_WORDING + "test_an_artifact_is_not_called_the_owners_file",),
    ),
    (
        "made README.md",
        "fifty files were deleted as well",
        "",
        (_REPORTS + _FILES,),
    ),
    ("made total.py", "it was edited", "", (_WORDING + "test_files_are_listed_taken_and_left",)),
    (
        "Nothing of it is running.",
        "the goal went on at the next tick",
        "",
        ("work/test_cancelled.py::test_a_cancelled_goal_stays_cancelled",),
    ),
    (
        "everything that I may try by myself was tried",
        "a new plan was being made",
        "may try by myself",
        (_SAID + "test_who_found_no_other_way_announces_no_plan",),
    ),
    (
        "approved, as long as I run",
        "the gates of an always_on goal were never in force",
        "as long as I run",
        ("web/test_visitor_cases.py::test_a_refund_is_a_card_and_happens_once_after_the_yes",),
    ),
    (
        "A colleague takes over.",
        "nobody was told",
        "A colleague takes over",
        ("web/test_visitor_cases.py::test_nobody_is_told_of_a_person_when_no_person_would_see_it",),
    ),
    (
        "You have agreed., ready",
        "the companion was refused",
        "",
        (_TROUBLES + "test_without_consent_it_is_never_ready",),
    ),
    (
        "done, ready",
        "the companion's model was down",
        "",
        (_TROUBLES + "test_the_run_fails_and_says_why_and_what_helps",),
    ),
    (
        "It has not written a report yet.",
        "it was filed under another scope",
        "",
        ("companions/test_report_scopes.py::" + _FILED,),
    ),
    (
        "What it makes of it stands in its report.",
        "the report did not change",
        "What it makes of it",
        (),
    ),
    (
        "Up to date.",
        "the report held a category that was taken away",
        "",
        ("companions/test_erasure.py::" + _ERASED,),
    ),
    (
        "Text from outside had a part in this.",
        "only the owner's words and files had",
        "",
        (_ORDINARY + "test_twenty_requests_of_an_ordinary_day_without_a_model",),
    ),
    (
        "plan_declined",
        "nobody was asked",
        "",
        ("stream/test_goals.py::test_a_repair_that_nobody_decided_was_not_declined",),
    ),
    (
        "Nothing was lost: … run the command again",
        "the approval stood and was carried out",
        "Nothing was lost",
        (_SAID + "test_on_a_full_disk_nobody_is_told_to_repeat_what_may_have_been_decided",),
    ),
    (
        "The owner has repeatedly undone plan: undo.",
        "undo cards were kept or expired",
        "repeatedly undone",
        ("stream/test_learning.py::" + _LEARNT,),
    ),
    (
        "Silas is running",
        "the vault was locked and the server answered nobody",
        "",
        (_START + "test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs",),
    ),
    (
        "Failed",
        "the plan was replaced or declined, and never ran",
        "",
        (_WORDING + "test_what_never_ran_did_not_fail",),
    ),
    ("attempt 5 of 2", "", "", (_WORDING + "test_nothing_is_the_fifth_attempt_of_two",)),
    ("made with tap", "it was slid, or signed with a passkey", "made with tap", ()),
    (
        "docs/tools.md: a call waits a day",
        "it waited thirty minutes",
        "",
        ("work/test_paused.py::TestLongerThanTheApproval",),
    ),
    (
        "docs/plans.md: checks that cannot fail are refused",
        "`true` was accepted",
        "",
        ("work/test_vacuous_checks.py::test_a_plan_with_such_a_check_is_refused_with_its_line",),
    ),
    ("against the whole house", "half of it took no part", "the whole house", ()),
    (
        "README: commands as printed",
        "there was no such file or claim",
        "",
        ("sentences/test_readme.py::test_the_commands_of_the_readme_work_in_its_order",),
    ),
)
"""Sentences that were not true: what was said, while what, words that nobody says any more, tests.

Each has a test in which it would be false, or is gone.
"""
