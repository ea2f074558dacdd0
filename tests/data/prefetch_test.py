import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_transformer.data.prefetch import Prefetcher

pytestmark = pytest.mark.once


def made_so_far(made, count):
    """What was made, when there are so many, or after a while."""
    end = time.monotonic() + 60
    while len(made) < count and time.monotonic() < end:
        time.sleep(0.001)
    return list(made)


def recording():
    made, threads = [], set()

    def make(index):
        made.append(index)
        threads.add(threading.current_thread().name)
        return 10 * index

    return make, made, threads


def test_the_next_items_are_made_in_a_thread():
    make, made, threads = recording()
    items = Prefetcher(make)
    assert items[0] == 0
    assert made_so_far(made, 5) == [0, 1, 2, 3, 4]
    assert [items[i] for i in (1, 2)] == [10, 20]
    assert made_so_far(made, 7) == [0, 1, 2, 3, 4, 5, 6]
    assert threading.current_thread().name not in threads


def test_nothing_is_made_beyond_the_last_item():
    make, made, _ = recording()
    items = Prefetcher(make, length=3)
    assert [items[i] for i in range(3)] == [0, 10, 20]
    assert made_so_far(made, 3) == [0, 1, 2]


def test_any_order_gives_the_same_items():
    items, order = Prefetcher(lambda index: 10 * index), [0, 1, 0, 1, 2, 7, 3, 3, 4, 5, 100, 6]
    assert [items[i] for i in order] == [10 * i for i in order]


def test_an_error_is_raised_where_its_item_is_asked_for():
    def make(index):
        if index == 3:
            raise OSError("no such token")
        return index

    items = Prefetcher(make)
    assert [items[i] for i in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="no such token"):
        items[3]


def test_two_threads_may_go_through_the_items_at_once():
    items = Prefetcher(lambda index: 10 * index)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: [items[i] for i in range(200)], range(2)))
    assert found == [[10 * i for i in range(200)]] * 2


def test_the_thread_ends_with_the_object():
    items = Prefetcher(lambda index: threading.current_thread())
    thread = items[0]
    assert thread.is_alive() and thread is not threading.current_thread()
    del items
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
