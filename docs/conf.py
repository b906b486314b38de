"""How the site is built: `python -m sphinx -W -b html docs docs/_build`. It asks the network for nothing.

Sphinx with MyST and Furo: API pages come from docstrings with their types, all of it works offline and from a
file, and all three are well kept. (Zensical's API pages are said to be preliminary in late 2026.)
"""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "hpobench-nmt"
author = "the authors of hpobench-nmt"
copyright = "2026, " + author
release = version = installed("hpobench-nmt")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "from_code",
    "leaderboard",
]
exclude_patterns = ["_build", "_ext"]
smartquotes = False  # many texts are half code

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "hpobench-nmt"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False

# `python -m sphinx -b linkcheck docs docs/_build/links` follows each link outside. It needs a network, so
# it is run before a release and not in CI.
linkcheck_timeout = 20
linkcheck_retries = 2
