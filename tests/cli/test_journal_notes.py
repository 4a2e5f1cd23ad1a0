"""`silas journal note`, `link`, `history` and `ratings`: changed, taken off, and told in words."""

from tests.cli.desk import Desk


def refused(desk: Desk, *words: str) -> str:
    code, _, complaint = desk.run("journal", *words)
    assert code != 0
    return complaint


def test_a_note_is_changed_linked_and_taken_off_again(desk: Desk) -> None:
    desk.say("task", "add", "Squats", "--category", "gym")
    desk.say("note", "slept badly", "-c", "gym")
    desk.say("note", "slept well", "-e", "slept")
    (note,) = desk.data("notes")["notes"]
    assert note["text"] == "slept well"
    assert desk.say("link", "slept", "squats", "-r", "before") == "Linked.\n"
    assert desk.say("link", "slept", "squats", "-r", "before", "--remove").startswith("Not linked")
    assert "There is no such record" in refused(desk, "link", "slept", "squats", "--remove")
    assert "no note called" in refused(desk, "note", "x", "-e", "nobody")
    assert "only the text" in refused(desk, "note", "x", "-e", "slept", "-c", "gym")


def test_a_history_is_told_in_words(desk: Desk) -> None:
    desk.say("task", "add", "Squats", "--category", "gym", "--due", "tomorrow 9am")
    desk.say("task", "done", "squats")
    made, done = desk.say("history", "squats").splitlines()
    assert "  you  " in made
    assert "title: Squats" in made
    assert "category: gym" in made
    assert done.endswith("you  status: done")
    assert "_" not in made


def test_the_rating_of_a_day_names_the_day(desk: Desk) -> None:
    desk.say("rate", "2026-03-01", "energy", "7")
    assert desk.say("ratings") == "energy 7  2026-03-01\n"
