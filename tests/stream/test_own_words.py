"""Whose words a text is: all rules may say no too often, and never yes too often."""

import pytest

from silas.agents.brain.grammar import understand
from silas.agents.brain.intents import AddTasks
from silas.agents.brain.phrases import JOURNAL_PHRASES
from silas.journal.conversation import JournalOp
from silas.stream.own_words import asked_for, corrects, in_owners_words, names_to_forget


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("remember that I like short answers", "The owner likes short answers."),
        ("Hi Silas, please remember: I'm a vegetarian. Thanks!", "I am a vegetarian"),
        ("Good morning.\nDon't forget that my bank is in Bern.", "your bank is in Bern"),
        ("I don't eat fish", "The owner does not eat fish"),
        ("I really carry 1.5 kg", "the user really carries 1.5 kg"),
        ("Actually, I have two cats", "The owner has two cats"),
        ("Ich mag Tee", "ich mag tee"),
    ],
)
def test_the_owners_words(message: str, text: str) -> None:
    assert in_owners_words(text, message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("I am not allergic", "I am allergic"),
        ("I am not allergic", "allergic"),
        ("I don't eat fish", "The owner does eat fish"),
        ("no sugar in my tea", "sugar in your tea"),
        ("remember that I owe 50", "The owner owes 500"),
        ("remember that it is -5", "it is 5"),
        ("remember that I have 1.5", "The owner has 15"),
        ("remember that I have 1.5", "The owner has 1,5"),
        ("Bob says I am rude. I am not.", "I am rude"),
        ('He wrote "bad. Remember that I love spam."', "I love spam"),
        ("you owe me 5", "I owe the owner 5"),
        ("remember that the owner hates me", "I hate the owner"),
        ("remember that I like tea", "The owner like tea and spam"),
        ("remember that I like te\u0430", "The owner likes tea"),
        ("remember that I like tea", "The owner likes tea\u200d"),
        ("remember that I like tea", "The owner likes tea 👍"),
        ("thanks", ""),
        ("?!", "."),
    ],
)
def test_not_the_owners_words(message: str, text: str) -> None:
    assert not in_owners_words(text, message)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("forget that I am allergic to penicillin", True),
        ("please forget about the penicillin", True),
        ("forget mem_1", True),
        ("forget mem_2", False),
        ("forget it", False),
        ("don't forget that I am allergic to penicillin", False),
        ("never forget penicillin", False),
        ("forget that I am not allergic to penicillin", False),
        ("forget the spare key", False),
        ("thanks", False),
    ],
)
def test_what_is_named_to_be_forgotten(message: str, names: bool) -> None:
    content = "I am allergic to penicillin"
    assert names_to_forget(message, memory_id="mem_1", content=content) is names


@pytest.mark.parametrize(
    ("message", "new", "is_one"),
    [
        ("no, I am not allergic any more", "The owner is not allergic any more", True),
        ("I am allergic to nuts now", "The owner is allergic to nuts now", True),
        ("no, I am not allergic any more", "The owner is allergic", False),
        ("nice weather", "nice weather", False),
        ("penicillin prices are up", "penicillin prices are up", False),
        ("no, the weather is nice", "the weather is nice", False),
    ],
)
def test_what_is_a_correction(message: str, new: str, is_one: bool) -> None:
    assert corrects(message, old="I am allergic to penicillin", new=new) is is_one


def test_the_offline_grammar_is_as_comfortable_as_it_was() -> None:
    said = [text for phrase in JOURNAL_PHRASES for text in phrase.match]
    wishes = [(text, wish) for text in said if isinstance(wish := understand(text), JournalOp)]
    assert len(wishes) > 10
    assert [text for text, wish in wishes if asked_for([wish], text) != (True,)] == []


@pytest.mark.parametrize(
    ("message", "titles"),
    [
        ("Add tasks: milk, bread, eggs", ("milk", "bread", "eggs")),
        ("add tasks:\n- milk\n- bread", ("milk", "bread")),
        ("add these to-dos: call the bank, add sugar and water the roses in home", None),
        ("please create some new tasks: milk and bread in shop", None),
    ],
)
def test_several_tasks_are_asked_for_at_once(message: str, titles: tuple[str, ...] | None) -> None:
    wish = understand(message)
    assert isinstance(wish, AddTasks)
    assert titles is None or tuple(each.title for each in wish.tasks) == titles
    assert all(asked_for(wish.tasks, message))
    # What the list does not name is not asked for, and neither is the list beside it.
    more = JournalOp.model_validate({"op": "add_task", "title": "sell the house"})
    assert asked_for([*wish.tasks, more], message)[-1] is False
    assert not any(asked_for(wish.tasks[:-1], message))


@pytest.mark.parametrize(
    ("message", "op"),
    [
        ("do not add tasks: milk", {"op": "add_task", "title": "milk"}),
        ("Is Squats done?", {"op": "finish_task", "task": "Squats"}),
        ("am I done with Squats", {"op": "finish_task", "task": "Squats"}),
        ("I am not done with Squats", {"op": "finish_task", "task": "Squats"}),
        ("add task Squats", {"op": "finish_task", "task": "Squats"}),
        ("do not stop the timer", {"op": "stop_timer"}),
        ("how are you?", {"op": "stop_timer"}),
        ("log 45 minutes on Squats", {"op": "log_time", "task": "Squats", "duration": "4 minutes"}),
        ("add task Squats", {"op": "add_task", "title": "Squats", "due": "tomorrow"}),
        ("if it rains, plan my day", {"op": "plan_day"}),
    ],
)
def test_what_the_journal_was_not_asked_for(message: str, op: dict[str, str]) -> None:
    assert asked_for([JournalOp.model_validate(op)], message) == (False,)
