"""Callbacks that show and log the progress of a training."""

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
from keras import ops

from keras_transformer.progress import LogEachMinute, is_shown, new_bar, spinner
from keras_transformer.training.training_state import steps_done

# Batches between two measurements of the time.
_BATCHES_BETWEEN = 10
_MOST_LAPS = 50
_BAR_FORMAT = "{desc} {bar:20} {elapsed}{postfix}"

logger = logging.getLogger(__name__)


class LogProgress(keras.callbacks.Callback):
    """A callback that adds the speed and the time left to each batch's logs.

    `ShowProgress`, or another progress bar, shows them: target tokens per second, and minutes. They
    are not kept in the history, so the history of an interrupted training does not change. It
    contains the learning rate at the end of each epoch.

    Within an epoch, updates are counted in Python: updates that the optimizer skips are noticed at
    the end of the epoch.

    Time is measured over ten batches. Times that may include compilation are ignored: the first
    batch, and times of more than twice the fastest. So speed and time left are available from the
    tenth batch on.

    Args:
        count_tokens: function that returns the number of target tokens in the first batches of the
            training, given the number of batches, such as `TokenBatches.target_tokens`.
        steps: the number of updates in the whole training.
    """

    async_safe = True

    def __init__(self, count_tokens: Callable[[int], float], steps: int):
        super().__init__()
        self.count_tokens = count_tokens
        self.steps = steps
        self._lock = threading.Lock()  # Keras may report the ends of two batches at once
        self._batches = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Start again in each `fit`: its first batch may compile.
        self._laps = deque(maxlen=_MOST_LAPS)
        self._is_first_epoch = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._accumulate = getattr(self.model.optimizer, "accumulate", 1)
        self._step = steps_done(self.model)
        if self._is_first_epoch:
            self._is_first_epoch = False
            self._batches = self._step * self._accumulate
        self._in_epoch, self._looked_at, self._looked = 0, 0, time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            with self._lock:
                self._add_logs(batch, logs)

    def _add_logs(self, batch: int, logs: dict[str, Any]) -> None:
        # Of two threads, the later one may report the earlier batch.
        done = self._in_epoch = max(self._in_epoch, batch + 1)
        is_first = not self._laps and not self._looked_at
        if is_first or done // _BATCHES_BETWEEN > self._looked_at // _BATCHES_BETWEEN:
            self._look(done, is_first)
        if laps := _without_slow(self._laps):
            batches, seconds, tokens = map(sum, zip(*laps))
            step = self._step + done // self._accumulate
            left = max(self.steps - step, 0) * self._accumulate
            logs["tokens_per_second"] = round(tokens / seconds)
            logs["minutes_left"] = round(seconds / batches * left / 60, 1)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._end_epoch()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._end_epoch()
        if logs is not None:
            rate = self.model.optimizer.learning_rate
            logs["learning_rate"] = float(ops.convert_to_numpy(rate))

    def _look(self, done: int, is_first: bool) -> None:
        """Record the time of the batches since the last call."""
        now, begin = time.monotonic(), self._batches + self._looked_at
        tokens = self.count_tokens(self._batches + done) - self.count_tokens(begin)
        if not is_first:
            self._laps.append((done - self._looked_at, now - self._looked, tokens))
        self._looked_at, self._looked = done, now

    def _end_epoch(self) -> None:
        self._batches += self._in_epoch
        self._in_epoch = 0


def _without_slow(laps: Iterable[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Return the laps (batches, seconds, tokens) with less than twice the time of the fastest."""
    laps = [lap for lap in laps if lap[1]]
    fastest = min((seconds / batches for batches, seconds, _ in laps), default=0)
    return [lap for lap in laps if lap[1] < 2 * fastest * lap[0]]


class ShowProgress(keras.callbacks.Callback):
    """A callback that shows or logs the progress of each epoch.

    On a terminal or in a notebook it shows one bar per epoch, with the logs. Elsewhere it logs a
    line each minute, and one when the epoch ends.

    It replaces Keras's own bar, which assumes that all batches take as long as a first batch that
    compiles. Call `fit` with `verbose=0`, and then `close`, so that an error does not leave a bar
    behind.

    Args:
        steps: the number of updates in the whole training.
        interval: the number of updates per epoch.
    """

    async_safe = True

    def __init__(self, steps: int, interval: int | None = None):
        super().__init__()
        self.steps = steps
        self.interval = interval
        self._lock = threading.Lock()  # Keras may report the ends of two batches at once
        self._bar = None
        self._compiling = contextlib.ExitStack()
        self._has_compiled = keras.backend.backend() == "torch"  # PyTorch compiles nothing

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._began, self._log = time.monotonic(), LogEachMinute()
        self._step, self._done = steps_done(self.model), 0
        self._accumulate = getattr(self.model.optimizer, "accumulate", 1)
        count = f" of {math.ceil(self.steps / self.interval)}" if self.interval else ""
        self._name = f"interval {epoch + 1}{count}"
        if self._has_compiled:
            self._open()
        else:
            self._compiling.enter_context(spinner("compiling the first step"))

    def _open(self) -> None:
        if is_shown():
            total = self.params["steps"]
            self._bar = new_bar(desc=self._words(), total=total, bar_format=_BAR_FORMAT)

    def _words(self) -> str:
        step = self._step + self._done // self._accumulate
        return f"{self._name}, step {step:,} of {self.steps:,}"

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        with self._lock:
            self._done = max(self._done, batch + 1)
            if not self._has_compiled:
                self._has_compiled = True
                self._compiling.close()
                self._open()
            if self._bar is None:
                self._log(lambda: f"{self._words()}: {_in_words(logs or {})}")
                return
            self._bar.set_description_str(self._words(), refresh=False)
            self._bar.set_postfix_str(_in_words(logs or {}), refresh=False)
            self._bar.update(self._done - self._bar.n)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str("validation")

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._bar is None:
            self._log(lambda: f"{self._words()}: validation")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        told = _in_words(logs or {})
        if self._bar is None:
            seconds = time.monotonic() - self._began
            step = f"step {steps_done(self.model):,} of {self.steps:,}"
            logger.info("%s: %s, %.0f s", step, told, seconds)
            return
        self._bar.set_postfix_str(told)
        self.close()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Close the bar, if one is shown."""
        self._compiling.close()
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _in_words(logs: Mapping[str, float]) -> str:
    shown = {
        "tokens_per_second": lambda value: f"{value:,.0f} tokens/s",
        "minutes_left": lambda value: f"{value:,.0f} min left" if value >= 1 else "< 1 min left",
    }
    # The most important values come first: a terminal truncates the rest.
    names = sorted(logs, key=lambda name: (name != "minutes_left", name != "loss"))
    return ", ".join(
        shown[name](logs[name]) if name in shown else f"{name} {float(logs[name]):.4g}"
        for name in sorted(names, key=lambda name: name in ("learning_rate", "tokens_per_second"))
    )
