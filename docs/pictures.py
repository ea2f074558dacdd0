"""Draw the pictures of the architecture: `python docs/pictures.py` writes them to `docs/images`.

Boxes are light with dark text, and arrows are gray, so that they are visible on white and on black.
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

FOLDER = Path(__file__).parent / "images"
BLUE, GREEN, YELLOW, RED = "#cfe3f7", "#d3ecd2", "#fbeebf", "#f6d5d0"
GRAY, INK = "#7f8893", "#15202b"

# A picture: its size; boxes name -> (x, y, width, color, title, lines); arrows (from, to, words).
# The middle of a box is at (x, y); an arrow goes from border to border.
TRAINING = (
    (11, 3.4),
    {
        "text": (1.1, 2.6, 1.7, GREEN, "text", "two files, or trees"),
        "words": (3.3, 2.6, 1.7, GREEN, "vocabulary", "SentencePiece\n(5.1)"),
        "store": (5.5, 2.6, 1.7, GREEN, "token store", "flat files,\nmemory-mapped"),
        "plan": (7.7, 2.6, 1.7, GREEN, "planned batches", "of N tokens,\nfew shapes (5.1)"),
        "fit": (9.9, 2.6, 1.7, BLUE, "model.fit", "Adam, NoamSchedule,\nlabel smoothing (5)"),
        "check": (9.9, 0.8, 1.7, YELLOW, "checkpoints", "weights, and the state\nto resume from"),
        "average": (7.7, 0.8, 1.7, YELLOW, "average", "of the last ones\n(6.1)"),
        "score": (5.5, 0.8, 1.7, RED, "scores", "BLEU or F1,\nwith signatures"),
        "preset": (3.3, 0.8, 1.7, YELLOW, "preset", "model, tokenizer,\nsearch, card"),
    },
    [
        ("text", "words", ""), ("words", "store", ""), ("store", "plan", ""), ("plan", "fit", ""),
        ("fit", "check", ""), ("check", "average", ""), ("average", "score", ""),
        ("score", "preset", ""),
    ],
)  # fmt: skip
SEARCH = (
    (11, 3.6),
    {
        "source": (1.1, 2.7, 1.7, GREEN, "source ids", "(batch, source)"),
        "encode": (3.3, 2.7, 1.7, BLUE, "encoder", "once; its keys and\nvalues are kept"),
        "step": (5.6, 2.7, 2.0, BLUE, "decoder", "one step of all live\nhypotheses, with a cache"),
        "may": (8.3, 2.7, 2.0, YELLOW, "constraints", "what may come next:\nbans, prefixes, trees"),
        "best": (8.3, 0.9, 2.0, RED, "candidates", "the best continuations"),
        "live": (5.6, 0.9, 2.0, GREEN, "live", "the beam, and where\neach descends from"),
        "done": (10.2, 0.9, 1.4, RED, "finished", "until no live one\ncan win"),
    },
    [
        ("source", "encode", ""), ("encode", "step", ""), ("step", "may", "log P"),
        ("may", "best", ""), ("best", "live", ""), ("live", "step", "next"), ("best", "done", ""),
    ],
)  # fmt: skip
PICTURES = {"training": TRAINING, "search": SEARCH}
HEIGHT = 1.0


def draw(size, boxes, arrows):
    """Return the figure of a picture."""
    figure = plt.figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(0, size[1]))
    axes.set_axis_off()
    for x, y, width, color, title, lines in boxes.values():
        corner = (x - width / 2, y - HEIGHT / 2)
        shape = FancyBboxPatch(
            corner, width, HEIGHT, "round,pad=0,rounding_size=.08", fc=color, ec=GRAY
        )
        axes.add_patch(shape)
        axes.text(x, y + 0.27, title, color=INK, weight="bold", size=11, ha="center", va="center")
        axes.text(x, y - 0.14, lines, color=INK, size=8.5, ha="center", va="center")
    for begin, end, words in arrows:
        start, stop = border(boxes[begin], boxes[end]), border(boxes[end], boxes[begin])
        style = {"arrowstyle": "-|>", "color": GRAY, "lw": 1.6, "shrinkA": 2, "shrinkB": 2}
        axes.annotate("", stop, start, arrowprops=style)
        middle = [(a + b) / 2 for a, b in zip(start, stop)]
        is_level = start[1] == stop[1]
        shift = (0, 0.15) if is_level else (0.08, 0)
        axes.text(
            middle[0] + shift[0],
            middle[1] + shift[1],
            words,
            color=GRAY,
            size=9,
            ha="center" if is_level else "left",
            va="center",
        )
    return figure


def border(box, other):
    """Return the point where the line between the centers of two boxes leaves the first box."""
    x, y, width, *_ = box
    dx, dy = other[0] - x, other[1] - y
    scale = min(
        width / 2 / abs(dx) if dx else float("inf"), HEIGHT / 2 / abs(dy) if dy else float("inf")
    )
    return x + dx * scale, y + dy * scale


def main(folder=FOLDER):
    # Text stays text; and the same picture is the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pictures"}):
        for name, picture in PICTURES.items():
            figure = draw(*picture)
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
