"""What the page may load and run: its own files, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re

_INLINE_SCRIPT = re.compile(r"<script type=\"importmap\">(.*?)</script>", re.DOTALL)


def content_security_policy(html: str, *, python: bool = False) -> str:
    """Only our own files, and the one inline script that the page cannot do without: its import map. Python
    in a worker is WebAssembly, which counts as a script that is made while the page runs."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in _INLINE_SCRIPT.findall(html)
    ]
    scripts = " ".join(["'self'", *hashes, *(["'wasm-unsafe-eval'"] if python else [])])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
    )
