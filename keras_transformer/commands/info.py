"""Describe a preset: its parts and its model card."""

from dataclasses import dataclass

import tyro


@dataclass(kw_only=True)
class Options:
    name: tyro.conf.Positional[str]
    """Preset: a folder, a name that `list` prints, hf://user/repository or
    kaggle://user/model/keras/variation."""


def main(options: Options) -> None:
    from keras_transformer.presets.location import locate
    from keras_transformer.presets.registry import card_of, details

    path = locate(options.name)
    for name, value in details(path).items():
        print(f"{name}: {value}")
    if card := card_of(path):
        print(f"\n{card.rstrip()}")
