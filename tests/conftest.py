import keras
import pytest


@pytest.fixture(autouse=True)
def seed():
    """Each test draws the same random numbers, whichever tests run before it."""
    keras.utils.set_random_seed(0)
