"""Make docs/images/diagnosis.png again, of reports/leading_dimension.html: `python docs/make_pictures.py`."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from chromium import Browser, find  # noqa: E402 (it lies among the tests, which drive the same pages)

WIDTH, SCALE = 1000, 1.25


def main() -> int:
    """Photograph the diagnosis, from its headline to its fix."""
    executable = find()
    if executable is None:
        print("no Chromium: install it, or name it in WMMADIAG_CHROMIUM", file=sys.stderr)
        return 2
    with Browser(executable) as browser:
        browser.open(ROOT / "reports" / "leading_dimension.html", WIDTH, scale=SCALE)
        box = browser.value(
            "(() => { const one = document.querySelector('.diagnosis').getBoundingClientRect();"
            " const last = document.querySelector('.diagnosis .fix').getBoundingClientRect();"
            " return [one.left, one.top + scrollY, one.width, last.bottom - one.top] })()"
        )
        assert isinstance(box, list)
        left, top, width, height = box
        clip = {"x": left - 8, "y": top - 8, "width": width + 16, "height": height + 8, "scale": 1}
        taken = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    (ROOT / "docs" / "images" / "diagnosis.png").write_bytes(base64.b64decode(taken["data"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
