"""client.py BASE_URL: the official Python client does what an application would."""

import sys
import threading
import time
from itertools import islice

from durable_streams import DurableStream, StreamNotFoundError, stream

MESSAGES = 20


def first_live_item(url, offset, live, ready):
    with stream(url, offset=offset, live=live, timeout=10) as response:
        ready.set()
        for item in response.iter_json():
            return item


def tail(handle, url, live):
    """Starts to wait at the tail, then appends."""
    received = []
    ready = threading.Event()
    offset = handle.head().offset
    reader = threading.Thread(
        target=lambda: received.append(first_live_item(url, offset, live, ready))
    )
    reader.start()
    # A long poll opens only when the answer is there, so it is not waited for.
    ready.wait(0.2)
    handle.append({"live": live})
    reader.join(timeout=10)
    assert received == [{"live": live}], (live, received)


def main(base):
    url = f"{base}/v1/stream/python-{time.time_ns()}"
    handle = DurableStream.create(url, content_type="application/json")
    for i in range(MESSAGES):
        handle.append({"i": i})

    with stream(url, offset="-1", live=False) as response:
        assert response.read_json() == [{"i": i} for i in range(MESSAGES)]

    for live in ("long-poll", "sse"):
        tail(handle, url, live)

    with stream(url, offset="-1", live="sse") as response:
        items = list(islice(response.iter_json(), MESSAGES + 2))
    assert items[:MESSAGES] == [{"i": i} for i in range(MESSAGES)]
    assert items[MESSAGES:] == [{"live": "long-poll"}, {"live": "sse"}]

    handle.delete()
    try:
        stream(url, offset="-1", live=False)
    except StreamNotFoundError:
        print(f"{MESSAGES} messages written, read, tailed and deleted")
    else:
        raise AssertionError("a deleted stream was read")


main(sys.argv[1])
