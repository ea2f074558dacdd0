"""The page of attention in a browser: what is pointed at changes the lines."""

import shutil

import numpy as np
import pytest

from tests.visualization.attention_test import made_up

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium or its driver is not installed"),
]


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=DRIVER)
    with webdriver.Chrome(options=options, service=service) as driver:
        yield driver


@pytest.fixture
def page(browser, tmp_path):
    attention = made_up()
    attention.save(tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri())
    Select(browser.find_element(By.CLASS_NAME, "kind")).select_by_value("cross")
    return browser, attention.cross


def lines(browser):
    """(head, query, key) -> how strong the line is."""
    return {
        tuple(int(line.get_attribute(f"data-{x}")) for x in ("head", "query", "key")): float(
            line.get_attribute("stroke-opacity")
        )
        for line in browser.find_elements(By.CSS_SELECTOR, ".lines line")
    }


def of(weights, *places):
    """The lines that there should be: those of some (head, query, key), None for all."""
    shown = np.zeros(weights.shape, bool)
    for place in places:
        shown[tuple(slice(None) if i is None else i for i in place)] = True
    return {
        place: round(1000 * float(weights[place])) / 1000
        for place in map(tuple, np.argwhere(shown).tolist())
        if round(1000 * float(weights[place])) >= 10
    }


def token(browser, side, index):
    return browser.find_element(
        By.CSS_SELECTOR, f".token[data-side={side}][data-index='{index}'] text"
    )


def point(browser, element):
    webdriver.ActionChains(browser).move_to_element(element).perform()


def test_pointing_at_a_word_leaves_its_lines_alone(page):
    browser, weights = page
    assert lines(browser) == of(weights[1], (None,))
    point(browser, token(browser, "query", 1))
    assert lines(browser) == of(weights[1], (None, 1))
    # Beside each token looked at, a cell for each head.
    cells = browser.find_elements(By.CSS_SELECTOR, ".token[data-side=key] rect.weight")
    shown = [int(cell.get_attribute("data-weight")) for cell in cells]
    assert shown == np.rint(1000 * weights[1, :, 1].T).astype(int).ravel().tolist()
    point(browser, token(browser, "key", 2))
    assert lines(browser) == of(weights[1], (None, None, 2))
    point(browser, browser.find_element(By.TAG_NAME, "h1"))
    assert lines(browser) == of(weights[1], (None,))


def test_a_click_keeps_a_word(page):
    browser, weights = page
    token(browser, "query", 0).click()
    point(browser, browser.find_element(By.TAG_NAME, "h1"))
    assert lines(browser) == of(weights[1], (None, 0))
    token(browser, "query", 0).click()
    point(browser, browser.find_element(By.TAG_NAME, "h1"))
    assert lines(browser) == of(weights[1], (None,))


def test_layer_and_heads_are_chosen(page):
    browser, weights = page
    Select(browser.find_element(By.CLASS_NAME, "layer")).select_by_value("0")
    assert lines(browser) == of(weights[0], (None,))
    buttons = browser.find_elements(By.CSS_SELECTOR, ".heads button")
    buttons[1].click()
    assert lines(browser) == of(weights[0], (0,), (2,))
    webdriver.ActionChains(browser).double_click(buttons[2]).perform()
    assert lines(browser) == of(weights[0], (2,))


def test_light_and_dark(page):
    browser, _ = page

    def brightness(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        body = browser.find_element(By.TAG_NAME, "body")
        text = token(browser, "query", 0)
        for element, name in ((body, "background-color"), (text, "fill")):
            color = element.value_of_css_property(name)
            numbers = color[color.index("(") + 1 : -1].split(",")[:3]
            yield sum(map(float, numbers)) / 3

    background, text = brightness("light")
    assert background > 240 and text < 60
    background, text = brightness("dark")
    assert background < 40 and text > 200
    assert browser.get_log("browser") == []  # no error, and nothing that was not found
