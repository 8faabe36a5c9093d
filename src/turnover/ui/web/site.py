"""What pages and the API share: one run and everything that answers for it."""

from dataclasses import dataclass

from turnover.runs import Run
from turnover.ui.html import nothing_learned, rows_by_split

from .answering import Answering
from .browsing import Browsing
from .corrections import MarkBook
from .shapes import About, Answer, Question, State
from .work_queue import WorkQueue


@dataclass(frozen=True)
class Site:
    """A run that is served."""

    run: Run
    browsing: Browsing
    answering: Answering
    marks: MarkBook
    queue: WorkQueue

    @classmethod
    def of(cls, run: Run, *, most_waiting: int, seconds: float) -> "Site":
        """Return the site of a run."""
        marks = MarkBook(run)
        browsing = Browsing(run, marks)
        queue = WorkQueue(most_waiting=most_waiting, seconds=seconds)
        return cls(run, browsing, Answering(run, browsing), marks, queue)

    async def answer(self, question: Question) -> Answer:
        """Return the answer to a question when its turn comes."""
        self.answering.check(question)
        self.answering.check_ready()
        return await self.queue.run(lambda: self.answering.answer(question))

    async def answer_image(self, content: bytes, *, examples_of: str, k: int) -> Answer:
        """Return the answer to an image when its turn comes."""
        self.answering.check_ready()
        return await self.queue.run(lambda: self.answering.answer_image(content, examples_of=examples_of, k=k))

    @property
    def state(self) -> State:
        """Return whether questions can be asked."""
        return State(state=self.answering.state, detail=self.answering.detail, waiting=self.queue.unfinished)

    @property
    def about(self) -> About:
        """Return what is served."""
        run = self.run
        return About(
            name=run.rows.name,
            kind=run.rows.kind,
            rows=rows_by_split(run),
            labels=list(run.label_names),
            task="regression" if run.rows.numeric else "classification",
            label_column=run.rows.label_column,
            columns=list(self.browsing.columns),
            groups=len(set(run.rows.groups)),
            results=run.about.results,
            warning=nothing_learned(run),
            versions=run.about.versions,
            state=self.state,
        )
