"""Draw the pictures of the pages: `python docs/pictures.py` writes them to `docs/images`.

- The boxes of a training and of a search are light with dark text, and arrows are gray, so that
  they are visible on white and on black.
- The formulas of sections 3.5 and 5.3 are computed by the layer and the schedule of the package,
  for light and for dark pages.
- The attention and the beam are those of a model of `saved_models`.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images"
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


def draw_architecture(folder):
    # Text stays text; and the same picture is the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pictures"}):
        for name, picture in PICTURES.items():
            figure = draw(*picture)
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata={"Date": None})
            plt.close(figure)


# The formulas


def draw_formulas(folder):
    from cycler import cycler
    from PIL import Image

    from keras_transformer.visualization.drawing import DARK, LIGHT, colors

    for ending, theme in (("", LIGHT), ("_dark", DARK)):
        style = {
            "figure.facecolor": theme.background,
            "axes.facecolor": theme.background,
            "axes.edgecolor": theme.muted,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "grid.color": theme.muted,
            "grid.alpha": 0.3,
            "legend.frameon": False,
            "axes.prop_cycle": cycler(color=colors(10)),
        }
        for name in (
            "text.color",
            "axes.labelcolor",
            "axes.titlecolor",
            "xtick.color",
            "ytick.color",
        ):
            style[name] = theme.text
        with plt.rc_context(style):
            for name, draw_one in FORMULAS.items():
                figure = draw_one()
                path = folder / f"{name}{ending}.png"
                figure.savefig(path, dpi=150)
                plt.close(figure)
                with Image.open(path) as image:  # a quarter of the size with few colors
                    image.convert("RGB").quantize(128).save(path, optimize=True)


def draw_positions(length=100, hidden_dim=128):
    """Draw what `SinePositionEncoding` adds at each position (section 3.5)."""
    from keras import ops

    from keras_transformer.layers import SinePositionEncoding

    zeros = np.zeros((1, length, hidden_dim), "float32")
    encoding = ops.convert_to_numpy(SinePositionEncoding()(zeros))[0]
    figure = plt.figure(figsize=(7, 5.2), layout="constrained")
    above, below = figure.subplots(2, height_ratios=[3, 2])
    image = above.imshow(encoding.T, cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
    above.set(xlabel="position", ylabel="dimension", title="PE(pos, i)")
    figure.colorbar(image, ax=above)
    for dimension in (0, 16, 32, 42):
        below.plot(encoding[:, dimension], label=f"dimension {dimension}")
    below.set(xlabel="position", xlim=(0, length - 1))
    below.grid(True)
    below.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize="small")
    return figure


def draw_learning_rates(num_steps=40_000):
    """Draw the learning rates of `NoamSchedule` (section 5.3)."""
    from keras import ops

    from keras_transformer import NoamSchedule

    steps = np.unique(np.linspace(0, num_steps - 1, 500).astype("int32"))
    figure = plt.figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for number, hidden_dim in enumerate((256, 512, 1024)):
        for warmup, line in ((4000, "-"), (8000, "--")):
            rates = ops.convert_to_numpy(NoamSchedule(hidden_dim, warmup)(steps))
            label = f"d_model {hidden_dim}, warm-up {warmup:,}"
            axes.plot(steps + 1, rates, line, color=f"C{number}", label=label)
    axes.set(xlabel="updates", title="Learning rate", xlim=(0, num_steps), ylim=(0, None))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
    axes.grid(True)
    axes.legend(fontsize="small")
    return figure


FORMULAS = {"position_encodings": draw_positions, "learning_rates": draw_learning_rates}


# A model


def draw_translation(folder):
    import keras_transformer as kt

    translator = kt.Translator.from_preset(str(ROOT / "saved_models" / "multi30k_en_de"))
    sentence = "A man in a red jacket is riding a bicycle down the street."
    attention = kt.visualization.attention_weights(translator, sentence)
    picture = kt.visualization.attention_svg(attention, "cross", layer=3)
    (folder / "attention.svg").write_text(f"{picture}\n", "utf-8")
    explanation = kt.visualization.explain_translation(translator, "A dog runs through the snow.")
    explanation.beam.save(folder / "beam.svg")


def main(folder=FOLDER):
    draw_architecture(folder)
    draw_formulas(folder)
    draw_translation(folder)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
