"""Questions to the owner that are not plans, who asks them, and what an answer leads to.

A question is sealed when it is asked and signed when it is answered. No answer executes anything:
what is to be done becomes a plan with a card of its own, and only that is approved.
"""
