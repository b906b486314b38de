"""Pages in a headless browser, for tests."""

from pathlib import Path

import pytest


def load(driver, page):
    """Open a file. On a busy machine, `get` alone may return before the page is complete."""
    from selenium.webdriver.support.wait import WebDriverWait

    driver.get(page.as_uri())
    complete = "return document.readyState === 'complete'"
    WebDriverWait(driver, 60).until(lambda driver: driver.execute_script(complete))


def emulate(driver, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def violations(driver):
    """What axe-core finds wrong with the page, in light and dark, in a wide and a narrow window."""
    axe = pytest.importorskip("axe_playwright_python", reason="pip install --no-deps axe-playwright-python")
    script = (Path(next(iter(axe.__path__))) / "axe.min.js").read_text(encoding="utf-8")
    found = []
    for scheme, width in (("light", 1200), ("dark", 390)):
        emulate(driver, scheme)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.refresh()
        driver.execute_script(script)
        run = "axe.run(document, {}).then(arguments[arguments.length - 1])"
        wrong = driver.execute_async_script(run)["violations"]
        found += [(scheme, width, one["id"], one["nodes"][0]["html"][:200]) for one in wrong]
    return found
