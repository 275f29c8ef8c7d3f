"""Opens a page in the user's browser, if there is a screen."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser


def open_url(url: str) -> None:
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in screens):
        return  # a text browser would take over the terminal
    # Not fatal: the URL is printed, and the user can open it elsewhere.
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(url)
