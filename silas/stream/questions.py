"""The questions that the planner asks while it thinks; they go out when it has stopped."""

from dataclasses import dataclass, field
from datetime import timedelta

from silas.kernel import Clock, IdFactory
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    MessageKind,
    QueueMessage,
    ResearchConstraints,
    ResearchRequest,
)
from silas.stream.reading_room import QuestionArguments
from silas.stream.research import Question, ResearchLimits, ResearchState, digest_of, refusal
from silas.work.executors import RESEARCH_TOOLS


@dataclass
class Questions:
    """What was accepted so far."""

    state: ResearchState
    limits: ResearchLimits
    clock: Clock
    ids: IdFactory
    tools: frozenset[str] = frozenset()
    """What whoever asked may use."""
    accepted: list[Question] = field(default_factory=list)
    constraints: dict[str, ResearchConstraints] = field(default_factory=dict)

    def ask(self, args: QuestionArguments) -> str:
        """Take a question; returns why not, if not."""
        seen = self.state.model_copy(update={"questions": [*self.state.questions, *self.accepted]})
        refused = refusal(seen, args.question, more=len(self.accepted), limits=self.limits)
        if refused:
            return refused
        question = Question(
            research_id=self.ids.new("research"),
            question=args.question,
            digest=digest_of(args.question),
            round=self.state.round + 1,
            deadline=self.clock.now() + timedelta(seconds=self.limits.seconds),
        )
        self.accepted.append(question)
        self.constraints[question.research_id] = ResearchConstraints(
            return_format=args.return_format,
            max_tokens=args.max_tokens,
            tools_allowed=sorted(RESEARCH_TOOLS & self.tools & set(args.tools_allowed)),
        )
        return ""


def ask_out(
    state: ResearchState, questions: Questions, *, ids: IdFactory, clock: Clock
) -> tuple[QueueMessage, ...]:
    """The questions as messages to the executor."""
    return tuple(
        follow(
            state.request,
            sender=Agent.PLANNER,
            kind=MessageKind.RESEARCH_REQUEST,
            content=each.question,
            payload=ResearchRequest(
                research_id=each.research_id,
                request_id=state.request.message_id,
                round=each.round,
                deadline=each.deadline,
            ),
            ids=ids,
            clock=clock,
            taint=state.taint,
            constraints=questions.constraints[each.research_id],
        )
        for each in questions.accepted
    )
