"""The built site in a headless Chromium, with the leaderboard."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from browser_pages import load, violations

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, with the leaderboard."""
    sphinx = pytest.importorskip("sphinx.cmd.build", reason="needs sphinx (the docs extra)")
    for package in ("furo", "myst_parser", "sphinx_click"):
        pytest.importorskip(package, reason="the docs extra")
    docs, folder = Path(__file__).parents[3] / "docs", tmp_path_factory.mktemp("site")
    assert subprocess.run([sys.executable, "-m", sphinx.__name__, "-q", docs, folder]).returncode == 0
    return folder


@pytest.mark.parametrize("page", ["index.html", "methods/BO_auto.html", "tables/sotu-gpt-30k.html"])
def test_the_leaderboard_is_accessible_and_finds_its_style_sheet(chromium, site, page):
    """In a folder of files that is opened as it is, without a server."""
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get_log("browser")
    load(chromium, site / "_static" / "leaderboard" / page)
    assert chromium.get_log("browser") == []
    assert chromium.execute_script("return document.querySelectorAll('style').length") == 0
    margin = "return getComputedStyle(document.body).marginTop"
    assert chromium.execute_script(margin) == "0px"  # a browser's own is 8 pixels
    assert violations(chromium) == []


def test_the_site_is_accessible_and_asks_the_network_for_nothing(chromium, site):
    chromium.get_log("performance")
    for page in ("tutorials/front.html", "reference/formats.html", "explanation/findings.html"):
        load(chromium, site / page)
        assert violations(chromium) == [], page
    focused = "const e = document.querySelector('.sidebar-search'); e.focus(); return getComputedStyle(e)"
    assert chromium.execute_script(f"{focused}.outlineStyle") == "solid"  # the keyboard's place is seen
    asked = [json.loads(line["message"])["message"] for line in chromium.get_log("performance")]
    urls = [
        line["params"]["request"]["url"] for line in asked if line["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
