"""Requests that wait for the model: how many there may be, and whose batch comes next."""

import asyncio
import contextlib
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
from starlette.exceptions import HTTPException

from keras_transformer.decoding.batched_search import (
    FEW_SIZES,
    SIZES,
    batch_sizes,
    before_batch,
)
from keras_transformer.errors import UserError
from keras_transformer.server.client_data import check_count
from keras_transformer.translation.prepared_text import PreparedText
from keras_transformer.translation.translator import Translator

_LETTERS_PER_TOKEN = 4  # in English; a language with fewer fills several batches of a search
# The longest wait for further requests: a part of the time of the last translation, and in seconds.
_WAIT_PART, _WAIT_SECONDS = 0.05, 0.1
_SECONDS_TO_RETRY = 2
# Ranks, the first one first. `EXTRA` is what a short request needs besides its translation.
_SHORT, EXTRA, LONG = 0, 1, 2
# The threads of each rank. Two requests of several batches are translated at the same time, one
# batch of each in turn.
_NUM_THREADS = {_SHORT: 1, EXTRA: 1, LONG: 2}


class Busy(HTTPException):
    """An answer that asks to try again later."""

    def __init__(self, reason: str = "Too many requests are waiting") -> None:
        headers = {"Retry-After": str(_SECONDS_TO_RETRY)}
        super().__init__(503, f"{reason}. Try again later", headers)


class _Canceled(Exception):
    """Nobody waits for the result of a thread."""


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        prepared: list of `PreparedText`, one per text.
        results: list of the result of `Translator.n_best` for each text.
        rank: the rank of what else the request needs, for `Scheduler.call`.
    """

    prepared: Sequence[PreparedText]
    results: Sequence[list[tuple[str, float]]]
    rank: int = LONG


class Admission:
    """Bounds on the requests that are read or answered at the same time.

    Args:
        max_requests: the most requests.
        max_bytes: the most bytes that they hold. A request may hold more if it is the only one.

    Attributes:
        num_requests: the number of requests that were admitted and are not answered.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self.num_requests = 0

    @contextlib.contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """Count a request within a `with` block, and return a function that adds bytes to it.

        Raises:
            Busy: if there are too many requests or bytes. The function raises it too.
        """
        if self.num_requests >= self._max_requests:
            raise Busy
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._num_bytes > held and self._num_bytes + size > self._max_bytes:
                raise Busy
            held += size
            self._num_bytes += size

        self.num_requests += 1
        try:
            yield hold
        finally:
            self.num_requests -= 1
            self._num_bytes -= held


class Turns:
    """The right to use the model, which one thread has at a time, for one batch.

    A thread with a lower rank comes before the others, and of one rank who came first.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tickets: list[tuple[int, int]] = []
        self._numbers = itertools.count()
        self._is_taken = False

    @contextlib.contextmanager
    def taken_for_each_batch(self, rank: int, is_canceled: Callable[[], bool]) -> Iterator[None]:
        """Let the thread wait for its turn before each batch within a `with` block.

        A canceled one ends there.
        """
        is_held = False

        def next_turn() -> None:
            nonlocal is_held
            if is_held:
                self._give_back()
            is_held = False
            self._take(rank)
            is_held = True
            if is_canceled():
                raise _Canceled

        # JAX compiles a program per shape, which would take minutes for all sizes of requests.
        sizes = FEW_SIZES if keras.backend.backend() == "jax" else SIZES
        token, sizes_token = before_batch.set(next_turn), batch_sizes.set(sizes)
        try:
            yield
        finally:
            before_batch.reset(token)
            batch_sizes.reset(sizes_token)
            if is_held:
                self._give_back()

    def _take(self, rank: int) -> None:
        ticket = rank, next(self._numbers)
        with self._changed:
            heapq.heappush(self._tickets, ticket)
            self._changed.wait_for(lambda: not self._is_taken and self._tickets[0] == ticket)
            heapq.heappop(self._tickets)
            self._is_taken = True

    def _give_back(self) -> None:
        with self._changed:
            self._is_taken = False
            self._changed.notify_all()


@dataclass(eq=False)
class _Job:
    translator: Translator
    num_results: int
    texts: list[str]
    answer: asyncio.Future = field(default_factory=lambda: asyncio.Future())

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))

    @property
    def room(self) -> int:
        """The number of characters that fill about a batch."""
        return _LETTERS_PER_TOKEN * self.translator.batch_tokens

    @property
    def is_long(self) -> bool:
        return self.size > self.room


class Scheduler:
    """Translates the texts of concurrent requests together, in threads of its own.

    When the model is free, it gets the texts of all short requests that wait and want the same
    direction and number of results, up to about `batch_tokens` tokens of the translator. A
    longer request is translated batch by batch. Short requests come between its batches, so that
    they wait for one batch at most.

    Clients that were answered together ask again within milliseconds. So after several requests,
    the model waits until as many have come again, for at most a twentieth of the time that it took,
    and 0.1 s. A single client never waits for others.

    Args:
        max_sentences: the most sentences of a request.
    """

    def __init__(self, max_sentences: int) -> None:
        self._max_sentences = max_sentences
        self._jobs: deque[_Job] = deque()
        self._job_came = asyncio.Event()
        self._turns = Turns()
        self._threads = {rank: ThreadPoolExecutor(size) for rank, size in _NUM_THREADS.items()}
        self._runner: asyncio.Task | None = None

    async def translate(
        self, translator: Translator, texts: Sequence[str], num_results: int = 1
    ) -> Answer:
        """Return the translations of some texts.

        Raises:
            HTTPException: if they have too many sentences.
            UserError: if a sentence is longer than the model reads, or the model gives no numbers.
        """
        job = _Job(translator, num_results, list(texts))
        if job.is_long:
            (answer,) = await self.call(self._translate, [job])
            if isinstance(answer, Exception):
                raise answer
            return answer
        self._jobs.append(job)
        self._job_came.set()
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return await job.answer

    async def call(self, function: Callable, *arguments: Any, rank: int = LONG) -> Any:
        """Return the result of a function that takes long, called in a thread.

        The thread waits for the model before each batch. If the call is canceled, it ends there.
        """
        is_canceled = threading.Event()

        def call() -> Any:
            with self._turns.taken_for_each_batch(rank, is_canceled.is_set):
                return function(*arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads[rank], call)
        finally:
            is_canceled.set()

    async def _run(self) -> None:
        while self._jobs:
            jobs, start = self._next_jobs(), time.monotonic()
            for job, answer in zip(jobs, await self.call(self._translate, jobs, rank=_SHORT)):
                if job.answer.done():  # its request was canceled
                    continue
                if isinstance(answer, Exception):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)
            seconds = time.monotonic() - start
            await self._wait_for(len(jobs), min(_WAIT_PART * seconds, _WAIT_SECONDS))

    async def _wait_for(self, num_jobs: int, seconds: float) -> None:
        """Wait until a number of jobs have come, and for some seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while num_jobs > 1 and len(self._jobs) < num_jobs:
                    self._job_came.clear()
                    await self._job_came.wait()

    def _next_jobs(self) -> list[_Job]:
        """Take the first job, and those that can be translated together with it."""
        self._jobs = deque(job for job in self._jobs if not job.answer.done())
        if not self._jobs:
            return []
        first, taken, left = self._jobs[0], [], deque()
        room = first.room
        for job in self._jobs:
            is_alike = (job.translator, job.num_results) == (first.translator, first.num_results)
            if job is first or (is_alike and job.size <= room):
                taken.append(job)
                room -= job.size
            else:
                left.append(job)
        self._jobs = left
        return taken

    def _translate(self, jobs: list[_Job]) -> list[Answer | Exception]:
        """Translate the texts of some jobs together, and return the answer to each job."""
        rows = [self._prepared(job) for job in jobs]
        texts = [text for row in rows if isinstance(row, list) for text in row]
        try:
            (results,) = translate(jobs[0].translator, texts, jobs[0].num_results)
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [answer for job in jobs for answer in self._translate([job])]
        found = iter(results)
        return [
            row
            if isinstance(row, Exception)
            else Answer(row, [*itertools.islice(found, len(row))], LONG if job.is_long else EXTRA)
            for job, row in zip(jobs, rows)
        ]

    def _prepared(self, job: _Job) -> list[PreparedText] | Exception:
        """Return the prepared texts of a job, or why they are not translated."""
        try:
            prepared = job.translator.prepare(job.texts, same_ends=True)
            count = sum(len(text.token_ids) for text in prepared)
            check_count(count, self._max_sentences, "sentences")
        except Exception as error:
            return error
        for number, text in enumerate(prepared, 1):
            if text.is_cut:
                return UserError(
                    f"Text {number} has a sentence of more than "
                    f"{job.translator.source_limit():,} tokens, which is what the model reads, and "
                    "without white space to divide it at. Expected a shorter one. Received: "
                    f"{job.texts[number - 1][:40]!r}..."
                )
        return prepared


def translate(
    translator: Translator, texts: Sequence[Any], num_results: int = 1
) -> Iterator[list[list[tuple[str, float]]]]:
    """Return an iterator of one window with the results of all texts."""
    return translator.translate_windows([texts], num_results)
