"""Every failure that a peer had, and the tests that try it here.

One line for each of the first 27 entries, and for those of the newer ones that are about accounts.
A test is named by its module and its name (with its class). Where the feature does not exist yet,
`waits_for` names the room that will bring it: the test of this table fails as soon as that room is
there and the entry still waits.

`python -m tests.peers.entries` prints the table as JSON; with `run` it runs the tests.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Entry:
    """One failure of peers."""

    what: str
    tests: tuple[str, ...] = ()
    waits_for: str = ""
    """A room that is not there yet, as a folder below the package."""


_APPROVAL = "tests/peers/test_approval_integrity.py::"
_SKILLS = "tests/skills/test_attacks.py::"
_CONTENT = "tests/peers/test_content.py::"
_CHANGED = "tests/work/test_displayed_is_executed.py::"
_CONTROL = "tests/web/test_control_plane.py::"
_BROWSER = "tests/web/test_browser_attacks.py::"
_DOOR = "tests/web/test_door.py::"
_HTTP = "tests/web/test_http.py::"
_BROKER = "tests/egress/test_broker_http.py::"
_MAIL = "tests/egress/test_broker_mail.py::"
_PROXY = "tests/egress/test_proxy.py::"
_ACCOUNTS = "tests/sandbox/test_accounts.py::"
_OAUTH = "tests/egress/test_oauth.py::"

ENTRIES: dict[int, Entry] = {
    1: Entry(
        "displayed is not executed",
        (
            f"{_APPROVAL}test_01_what_is_shown_is_what_is_executed",
            f"{_BROWSER}TestText.test_of_a_card_is_shown_to_the_letter",
            "tests/cli/test_plan_run.py::test_invisible_characters_are_shown",
            "tests/stream/test_review.py::TestGates.test_what_cannot_be_shown_whole_is_not_let_through",
        ),
    ),
    2: Entry(
        "changed after approval",
        (
            f"{_APPROVAL}test_02_what_changed_after_it_was_shown_is_not_executed",
            f"{_CHANGED}test_a_script",
            f"{_CHANGED}test_a_working_directory_that_became_a_link",
            f"{_CHANGED}test_the_environment",
            f"{_CHANGED}test_the_arguments",
        ),
    ),
    3: Entry(
        "a grant for the wrapper, or for ever",
        (f"{_APPROVAL}test_03_a_yes_is_for_one_plan_once",),
    ),
    4: Entry("parser differential", (f"{_APPROVAL}test_04_only_the_parsed_plan_executes",)),
    5: Entry(
        "the approver is not authorised",
        (
            f"{_APPROVAL}test_05_who_is_not_the_owner_approves_nothing",
            f"{_DOOR}TestDecisions.test_what_is_not_signed_decides_nothing",
        ),
    ),
    6: Entry(
        "it runs while the prompt is pending",
        (f"{_APPROVAL}test_06_nothing_runs_while_the_question_waits",),
    ),
    7: Entry(
        "a headless path skips the gate",
        (
            f"{_APPROVAL}test_07_no_path_without_a_person_skips_the_token",
            "tests/cli/test_plan_run.py::test_without_a_person_it_takes_the_hash_of_exactly_this_plan",
            "tests/work/test_goal.py::test_without_an_approval_not_even_the_checks_run",
            "tests/companions/test_adversarial.py::test_it_cannot_approve_itself",
        ),
    ),
    8: Entry(
        "a mode switch leaves stale grants",
        (
            f"{_APPROVAL}test_08_after_a_change_of_keys_no_old_grant_decides",
            "tests/proactive/test_calibrator.py::TestInForce.test_a_row_without_its_token_widens_nothing",
            "tests/work/test_goal.py::test_a_changed_goal_does_nothing",
        ),
    ),
    9: Entry(
        "an agent clicks the approve button",
        (
            f"{_APPROVAL}test_09_who_drives_a_browser_here_has_no_key_to_approve_with",
            f"{_BROWSER}TestACard.test_a_click_that_is_too_early_and_one_of_a_script_do_nothing",
        ),
    ),
    10: Entry(
        "compaction drops the rules; STOP is ignored",
        (f"{_APPROVAL}test_10_forgetting_the_rules_removes_no_gate_and_stop_is_out_of_band",),
    ),
    11: Entry(
        "a URL parameter leaks the token or points elsewhere",
        (
            f"{_BROWSER}TestTheAddress.test_a_parameter_points_the_page_nowhere",
            f"{_BROWSER}TestTheAddress.test_the_code_is_in_no_referrer_history_or_log",
            f"{_DOOR}test_no_address_has_a_query",
        ),
    ),
    12: Entry(
        "cross-site WebSocket; brute force; a limiter that can be skipped",
        (
            f"{_DOOR}TestSocket.test_other_pages_do_not_get_one",
            f"{_BROWSER}TestAnotherPage.test_gets_no_websocket",
            f"{_CONTROL}test_a_brute_force_of_the_pairing_code_voids_it",
        ),
    ),
    13: Entry(
        "loopback trusted behind a proxy",
        (
            f"{_CONTROL}test_loopback_is_no_credential_behind_a_proxy_or_without_one",
            f"{_CONTROL}test_a_forwarded_host_does_not_make_a_foreign_one_ours",
        ),
    ),
    14: Entry(
        "scopes that a client declares; the first passkey without authentication",
        (
            f"{_CONTROL}test_scopes_that_a_client_declares_are_not_taken",
            "tests/web/test_passkeys.py::test_a_paired_browser_alone_gives_itself_no_passkey",
        ),
    ),
    15: Entry(
        "configuration is written without authentication; a reload disables guards",
        tuple(
            f"tests/web/test_onboarding.py::TestAnUnauthenticatedConfigurationWrite.{name}"
            for name in (
                "test_without_the_devices_signature_nothing_is_written",
                "test_gates_and_guards_survive_the_change",
            )
        ),
    ),
    16: Entry(
        "revocation is ignored by what is open or cached",
        (
            f"{_CONTROL}test_a_revoked_device_is_out_everywhere_at_once",
            f"{_BROWSER}test_a_revoked_device_with_an_open_socket_is_out_at_once",
            "tests/approval/test_devices.py::test_rotating_the_owners_key_ends_every_device",
        ),
    ),
    17: Entry("a token in a log", (f"{_CONTROL}test_nothing_that_opens_a_door_is_in_a_log",)),
    18: Entry(
        "verification that fails open; replay by reordering; content-type confusion",
        (
            f"{_CONTROL}test_a_body_of_another_kind_is_not_read_as_json",
            f"{_HTTP}TestSecrets.test_a_signed_request_works_once",
            f"{_HTTP}TestSecrets.test_a_changed_signature_is_none",
            f"{_DOOR}test_no_address_has_a_query",
        ),
    ),
    19: Entry(
        "OAuth `state` is skipped",
        (
            f"{_OAUTH}test_a_redirect_is_bound_to_its_attempt_and_the_code_to_its_verifier",
            f"{_OAUTH}test_a_page_that_knows_no_state_ends_nothing",
            f"{_OAUTH}test_an_answer_of_another_provider_is_not_exchanged",
        ),
    ),
    20: Entry(
        "malicious skills",
        (
            f"{_SKILLS}test_a_script_sees_neither_home_nor_vault_environment_network_or_other_skills",
            f"{_SKILLS}test_prose_that_orders_more_than_the_plan_gets_nothing",
            f"{_SKILLS}test_a_second_version_that_turns_bad_is_not_used_without_its_own_yes",
            f"{_SKILLS}test_files_changed_between_card_and_token_are_not_installed",
        ),
    ),
    21: Entry(
        "traversal in an archive, of a backup or a skill",
        (
            "tests/skills/test_importing.py::test_odd_archives_are_refused_and_leave_nothing",
            "tests/skills/test_tree.py::test_links_and_devices_are_refused",
            "tests/storage/test_restore.py::test_tricks_in_the_headers",
            "tests/storage/test_restore.py::test_lies_in_the_manifest",
        ),
    ),
    22: Entry(
        "a repository's configuration acts before it is trusted",
        (
            f"{_CONTENT}test_22_what_lies_in_a_folder_does_not_act_on_who_works_there",
            "tests/sandbox/test_verification.py::test_git_obeys_no_configuration_of_the_repository",
            "tests/work/test_liars.py::test_what_makes_other_programs_act_is_never_taken_over",
        ),
    ),
    23: Entry(
        "sandboxed code plants settings; `network=container:`; a sandbox that is switched off",
        (
            "tests/sandbox/test_protected.py::test_a_missing_settings_file_is_there_while_it_matters",
            "tests/sandbox/test_docker.py::test_a_request_cannot_name_a_network",
            "tests/sandbox/test_battery.py::test_attempt",
        ),
    ),
    24: Entry(
        "a link preview exfiltrates with no click",
        (
            f"{_CONTENT}test_24_a_link_in_an_answer_carries_nothing_away",
            f"{_BROWSER}TestText.test_is_never_markup",
        ),
    ),
    25: Entry(
        "zero-click mail with a spoofed sender",
        (
            f"{_CONTENT}test_25_text_that_says_who_sent_it_is_nobodys_order",
            "tests/skills/test_mail.py::test_a_sender_counts_if_the_receiving_server_says_so",
            "tests/skills/test_mail.py::test_no_sender_counts_where_nobody_knows_the_receiving_server",
            "tests/skills/test_mail.py::test_two_senders_are_none",
        ),
    ),
    26: Entry(
        "heartbeats pollute the memory",
        (
            f"{_CONTENT}test_26_what_a_heartbeat_reports_becomes_no_memory",
            "tests/memory/test_poisoning.py::test_it_cannot_be_stored_as_anything_trusted",
        ),
    ),
    27: Entry(
        "SSRF through a redirect; stores that everybody can read",
        (
            f"{_CONTENT}test_27_stores_are_the_owners_alone_and_redirects_lead_nowhere",
            "tests/tools/test_web_search.py::test_a_bad_answer_is_a_failure_that_keeps_the_key",
            f"{_BROKER}test_a_redirect_is_passed_back_and_followed_by_nobody",
            f"{_BROKER}test_a_name_that_was_rebound_to_a_private_address_is_not_dialled",
            f"{_PROXY}test_a_redirect_is_the_programs_own_business",
            f"{_PROXY}test_a_listed_name_with_a_private_address_is_not_dialled",
        ),
    ),
    33: Entry(
        "OAuth without consent; a token for somebody else",
        (
            f"{_OAUTH}test_an_answer_of_another_provider_is_not_exchanged",
            f"{_OAUTH}test_metadata_that_leads_elsewhere_is_not_used",
            f"{_OAUTH}test_a_token_of_another_kind_is_not_used",
            f"{_BROKER}test_hosts_that_are_listed_beside_the_account_get_no_credential",
        ),
    ),
    34: Entry(
        "allowlist and resolver read a name differently",
        (
            f"{_PROXY}test_a_request_with_a_trick_reaches_nothing",
            f"{_BROKER}test_a_request_with_a_trick_reaches_nothing",
            "tests/egress/test_hosts.py::test_what_is_no_plain_name_is_refused",
        ),
    ),
    45: Entry(
        "an agent finds a broad token and uses it",
        (
            f"{_ACCOUNTS}test_the_credential_is_in_no_file_environment_argument_or_memory_of_a_sandbox",
            f"{_ACCOUNTS}test_the_credential_is_in_no_process_that_others_can_look_at",
            f"{_MAIL}test_observe_changes_nothing_whatever_is_tried",
            "tests/connections/test_malicious.py::test_it_can_look_and_nothing_else",
            "tests/connections/test_malicious.py::test_nor_can_it_before_and_beside_its_work",
            "tests/web/test_mail_connection.py::test_a_mailbox_from_the_first_card_to_its_removal",
        ),
    ),
}


def node_ids() -> list[str]:
    """Every test of the table once, as pytest is asked for it."""
    named = {name for entry in ENTRIES.values() for name in entry.tests}
    return sorted(_node_id(name) for name in named)


def _node_id(name: str) -> str:
    """`module::Class.test` as `module::Class::test`."""
    module, _, inside = name.partition("::")
    return "::".join([module, *inside.split(".")])


def as_data() -> dict[str, Any]:
    """The table for programs."""
    waiting = {number: entry.waits_for for number, entry in ENTRIES.items() if entry.waits_for}
    return {
        "entries": len(ENTRIES),
        "tried": len(ENTRIES) - len(waiting),
        "waiting": waiting,
        "tests": node_ids(),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        sys.exit(pytest.main(["-q", *node_ids()]))
    print(json.dumps(as_data()))
