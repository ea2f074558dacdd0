"""The thread that owns the model, and the requests that wait for it."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import keras

from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator

Results = list[list[tuple[str, float]]]

_LETTERS_PER_TOKEN = 4  # in English; a language with fewer fills several batches of a search
# The longest wait for further requests: a part of the time of the last translation, and in seconds.
_WAIT_PART, _WAIT_SECONDS = 0.05, 0.1


class Busy(Exception):
    """Too many sentences wait for the model."""


@dataclass(eq=False)
class _Job:
    translator: Translator
    num_results: int
    texts: list[str]
    answer: asyncio.Future = field(default_factory=lambda: asyncio.Future())

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))


class ModelThread:
    """Translates the texts of concurrent requests together.

    When the model is free, it gets the texts of all requests that wait and want the same direction
    and number of results, up to about `batch_tokens` tokens of the translator. The translator
    sorts them by length.

    Clients that were answered together ask again within milliseconds. So after several requests,
    the model waits until as many have come again, for at most a twentieth of the time that it took,
    and 0.1 s. A single client never waits for others.

    Args:
        max_waiting: the most sentences that wait.

    Attributes:
        num_waiting: the number of sentences that wait or are being translated.
    """

    def __init__(self, max_waiting: int):
        self._max_waiting = max_waiting
        self._jobs: deque[_Job] = deque()
        self._job_came = asyncio.Event()
        self._executor = ThreadPoolExecutor(1, "model")
        self._runner: asyncio.Task | None = None
        self.num_waiting = 0

    async def translate(
        self,
        translator: Translator,
        texts: Sequence[str],
        num_results: int = 1,
        num_sentences: int | None = None,
    ) -> Results:
        """Return the result of `Translator.n_best` for each text.

        Raises:
            Busy: if too many sentences wait.
            UserError: if a sentence is longer than the model reads, or the model gives no numbers.
        """
        job = _Job(translator, num_results, list(texts))
        with self._waiting(len(job.texts) if num_sentences is None else num_sentences):
            self._jobs.append(job)
            self._job_came.set()
            if self._runner is None or self._runner.done():
                self._runner = asyncio.create_task(self._run())
            return await job.answer

    async def call(self, function: Callable, *arguments: Any) -> Any:
        """Return the result of a function that uses the model, and counts as one sentence.

        Raises:
            Busy: if too many sentences wait.
        """
        with self._waiting(1):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, function, *arguments)

    @contextlib.contextmanager
    def _waiting(self, count):
        """Count sentences as waiting within a `with` block."""
        if self.num_waiting and self.num_waiting + count > self._max_waiting:
            raise Busy
        self.num_waiting += count
        try:
            yield
        finally:
            self.num_waiting -= count

    async def _run(self):
        loop = asyncio.get_running_loop()
        while self._jobs:
            jobs, start = self._next_jobs(), time.monotonic()
            try:
                answers = await loop.run_in_executor(self._executor, _translate, jobs)
            except Exception as error:
                answers = [error] * len(jobs)
            for job, answer in zip(jobs, answers):
                if job.answer.done():  # its request was canceled
                    continue
                if isinstance(answer, Exception):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)
            seconds = time.monotonic() - start
            await self._wait_for(len(jobs), min(_WAIT_PART * seconds, _WAIT_SECONDS))

    async def _wait_for(self, num_jobs, seconds):
        """Wait until a number of jobs have come, and for some seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while num_jobs > 1 and len(self._jobs) < num_jobs:
                    self._job_came.clear()
                    await self._job_came.wait()

    def _next_jobs(self):
        """Take the first job, and those that can be translated together with it."""
        first, taken, left = self._jobs[0], [], deque()
        room = _LETTERS_PER_TOKEN * first.translator.batch_tokens
        for job in self._jobs:
            is_alike = (job.translator, job.num_results) == (first.translator, first.num_results)
            if job is first or (is_alike and job.size <= room):
                taken.append(job)
                room -= job.size
            else:
                left.append(job)
        self._jobs = left
        return taken


def _translate(jobs: list[_Job]) -> list[Results | UserError]:
    """Translate the texts of some jobs together, and return the answer of each job."""
    translator, num_results = jobs[0].translator, jobs[0].num_results
    answers: list[Any] = [_too_long(translator, job.texts) for job in jobs]
    texts = [text for job, error in zip(jobs, answers) if error is None for text in job.texts]
    (results,) = translate(translator, texts, num_results) if texts else ([],)
    start = 0
    for index, job in enumerate(jobs):
        if answers[index] is None:
            answers[index] = results[start : start + len(job.texts)]
            start += len(job.texts)
    return answers


def translate(translator: Translator, texts: list[str], num_results: int = 1) -> Iterator[Results]:
    """Return an iterator of one window with the results of all texts."""
    is_compiled_per_shape = keras.backend.backend() == "jax"
    return translator.translate_windows([texts], num_results, few_shapes=is_compiled_per_shape)


def _too_long(translator: Translator, texts: list[str]) -> UserError | None:
    """Return an error that names the first text that the model would not read completely."""
    for number, check in enumerate(translator.check_sources(texts), 1):
        if check.is_cut:
            return UserError(
                f"Text {number} has a sentence of more than {translator.source_limit():,} tokens, "
                "which is what the model reads, and without white space to divide it at. Expected "
                f"a shorter one. Received: {texts[number - 1][:40]!r}..."
            )
    return None
