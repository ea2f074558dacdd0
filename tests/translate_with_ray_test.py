"""`translate_with_ray.py`: what `translate.py` prints, though a worker is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_transformer.data.synthetic import generate

pytest.importorskip("ray", reason="Ray is not installed.")
pytestmark = [pytest.mark.once, pytest.mark.slow]

ROOT = Path(__file__).parents[1]
BLOCKS = 12
SCRIPT = ROOT / "recipes" / "translation" / "translate_with_ray.py"


def start(words, lines, output, *options):
    arguments = ["--model", ROOT / "saved_models" / "multi30k_en_de", "--beam-size", "1"]
    arguments += ["--alpha", "0", "--buffer-size", "20", *options]
    with open(lines, "rb") as source, open(output, "wb") as target:
        return subprocess.Popen(
            [sys.executable, *words, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=source,
            stdout=target,
        )


def workers_of(driver):
    """The ids of Ray's workers that a process has started and that translate now."""
    parents, titles = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            titles[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:
            continue  # It has ended.
        parents[int(folder.name)] = int(status[1])

    def is_of_driver(process):
        while process in parents and process != driver:
            process = parents[process]
        return process == driver

    busy = [x for x, title in titles.items() if "MapWorker" in title and "submit" in title]
    return [process for process in busy if is_of_driver(process)]


def test_lines_of_a_killed_worker_are_translated_again(tmp_path):
    sentences = [example.english for example in generate("test", 20 * BLOCKS)]
    sentences[5] = ""
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{sentence}\n" for sentence in sentences), "utf-8")
    expected, output = tmp_path / "expected", tmp_path / "output"
    assert start(["-m", "keras_transformer", "translate"], lines, expected).wait(300) == 0
    # In two parts.
    driver = start([SCRIPT], lines, output, "--blocks", str(BLOCKS // 2 + 1))
    try:
        while driver.poll() is None and not (busy := workers_of(driver.pid)):
            time.sleep(0.02)
        os.kill(busy[0], signal.SIGKILL)
        assert driver.wait(500) == 0
    finally:
        driver.kill()
    assert len(expected.read_text().splitlines()) == len(sentences)
    assert output.read_text() == expected.read_text()


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--model", "nowhere"], "nowhere"), (["--model", "x", "--blocks", "0"], "--blocks")],
)
def test_wrong_options_of_the_ray_script_take_one_line(options, word):
    done = subprocess.run(
        [sys.executable, SCRIPT, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="A dog runs.\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and not done.stdout
    assert word in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
