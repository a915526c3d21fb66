"""What the servers of this folder have in common: a body that must be right, an answer that depends on it, some milliseconds of work."""

import json
import zlib


class Refused(Exception):
    pass


def score(body):
    try:
        text = json.loads(body)["text"]
        if not isinstance(text, str):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise Refused('send {"text": "..."}')
    state = zlib.crc32(text.encode())
    for _ in range(4000):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return {"label": "positive" if state & 1024 else "negative", "score": state / 0x7FFFFFFF}
