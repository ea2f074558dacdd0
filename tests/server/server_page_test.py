"""The server's page in a browser: typed text is translated, and explained on request."""

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from keras_transformer.translation.translator import Translator  # noqa: E402
from tests.server.running import running  # noqa: E402
from tests.small_corpus import new_model, tokenizer  # noqa: E402
from tests.visualization.page_test import browser, pytestmark  # noqa: E402, F401


@pytest.fixture(scope="module")
def translator():
    metadata = {"source": "en", "target": "de"}
    return Translator(
        new_model(), tokenizer(), metadata, beam_size=3, extra_length=1, max_source_length=16
    )


@pytest.fixture
def page(browser, translator):  # noqa: F811
    with running(translator) as port:
        browser.get(f"http://127.0.0.1:{port}/")
        wait(browser, lambda: at(browser, "target").text == "German")
        yield browser
        browser.get_log("browser")  # empties it


def at(browser, name):  # noqa: F811
    return browser.find_element(By.ID, name)


def wait(browser, condition):  # noqa: F811
    WebDriverWait(browser, 60).until(lambda _: condition())


def press(browser, *keys):  # noqa: F811
    webdriver.ActionChains(browser).send_keys(*keys).perform()


def focused(browser):  # noqa: F811
    return browser.switch_to.active_element.get_attribute("id")


def test_text_is_translated_and_explained_with_the_keyboard_alone(page, translator):
    (results,) = next(translator.translate_windows([["the dog sees"]], 3))
    assert focused(page) == "text"
    press(page, "the dog sees")
    keys = webdriver.ActionChains(page).key_down(Keys.CONTROL).send_keys(Keys.ENTER)
    keys.key_up(Keys.CONTROL).perform()
    wait(page, lambda: at(page, "inside").is_displayed())
    assert at(page, "translation").get_property("textContent") == results[0][0]
    others = at(page, "alternatives").find_elements(By.TAG_NAME, "li")
    expected = list(dict.fromkeys(text for text, _ in results[1:]))
    assert [item.get_property("textContent") for item in others] == expected

    order = []
    while focused(page) != "explain":
        press(page, Keys.TAB)
        order.append(focused(page))
    assert order == ["target", "translation", "translate", "explain"]
    press(page, Keys.ENTER)
    wait(page, lambda: at(page, "explanation").is_displayed())
    page.switch_to.frame("explanation")
    wait(page, lambda: page.find_elements(By.TAG_NAME, "h2"))
    titles = [title.text for title in page.find_elements(By.TAG_NAME, "h2")]
    assert titles == ["Attention", "Alignment", "Beam"]
    assert page.find_element(By.TAG_NAME, "h1").text == "the dog sees"
    assert page.find_elements(By.CSS_SELECTOR, ".attention .token")
    page.switch_to.default_content()
    assert page.get_log("browser") == []  # no error, and nothing that was not found


def test_a_chosen_sentence_of_a_text_is_explained(page):
    page.execute_script("at('text').value = 'The dog sees. A cat runs.'")
    at(page, "translate").click()
    wait(page, lambda: at(page, "sentence").is_displayed())
    sentences = at(page, "sentence").find_elements(By.TAG_NAME, "option")
    assert [option.text for option in sentences] == ["The dog sees.", "A cat runs."]
    sentences[1].click()
    at(page, "explain").click()
    wait(page, lambda: at(page, "explanation").is_displayed())
    page.switch_to.frame("explanation")
    wait(page, lambda: page.find_elements(By.TAG_NAME, "h1"))
    assert page.find_element(By.TAG_NAME, "h1").text == "A cat runs."
    page.switch_to.default_content()
    assert page.get_log("browser") == []


def test_the_page_shows_errors(page):
    page.execute_script("at('text').value = 'dog'.repeat(20)")
    at(page, "translate").click()
    wait(page, lambda: "more than 16 tokens" in at(page, "translation").text)
    assert not at(page, "inside").is_displayed()


def test_the_page_adapts_to_dark_and_narrow_screens(page):
    def brightness(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for name in ("background-color", "color"):
            color = page.find_element(By.TAG_NAME, "body").value_of_css_property(name)
            yield sum(map(float, color[color.index("(") + 1 : -1].split(",")[:3])) / 3

    background, text = brightness("light")
    assert background > 240 and text < 60
    background, text = brightness("dark")
    assert background < 40 and text > 200
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    source, target = (at(page, name).rect for name in ("text", "translation"))
    assert target["y"] >= source["y"] + source["height"]  # below each other
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert page.get_log("browser") == []
