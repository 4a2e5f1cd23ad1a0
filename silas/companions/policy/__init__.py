"""What companions may do, decided without any model: who may be asked, with what, for how much.

Every question here has one answer when nothing is known: no. What is decided here is told with the
codes of the plan, each an error class with a sentence for people.
"""
