"""One HTML file out of a document: styles, scripts and data inside, and a policy that forbids the network.

Nothing of a log becomes markup: the document is JSON in a script element that is never run, in which `<`, `>` and `&`
are escaped, and the scripts write text nodes alone. Only the two scripts whose hashes the policy names can run.
"""

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

_ASSETS = Path(__file__).with_name("assets")
# In this order they are one script.
_SCRIPTS = ("start.js", "model.js", "graph.js", "timeline.js", "details.js", "question.js", "panels.js", "keys.js")


def render(document: dict[str, Any]) -> str:
    """Returns the page of a document that `payload.describe` made."""
    library = _asset("force-graph.min.js")
    app = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();\n"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(library)} {_hash(app)}",
            # The drawing library sets styles of its own; they can load nothing.
            "style-src 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = {
        "POLICY": html.escape(policy),
        "TITLE": html.escape(str(document["memory"])),
        "STYLE": _asset("page.css"),
        # A comment cannot hold two hyphens in a row.
        "LICENSES": _asset("LICENSES.txt").replace("--", "=="),
        "DATA": safe_json(document),
        "LIBRARY": library,
        "APP": app,
    }
    # Split, not replaced one after the other: what is filled in may hold the name of another part.
    pieces = _asset("page.html").split("@@")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def safe_json(value: Any) -> str:
    """JSON that may stand in a script element of an HTML page."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # A lone half of a pair, which an argument of a command may hold, has no UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
