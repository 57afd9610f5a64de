"""Send the requests of a source one after the other, in the calling thread."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TypeVar

from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import Interrupted
from resources.http.messages import Request, Response

T = TypeVar("T")


class BlockingDriver:
    """Runs a generator that yields Requests and receives Responses to its result. `log` receives the attempts."""

    def __init__(self, client: HttpClient, log: AttemptLog, stop: threading.Event) -> None:
        self._client, self._log, self._stop = client, log, stop

    def ask(self, conversation: Generator[Request, Response, T]) -> T:
        """Return the generator's result. Raises Interrupted when `stop` is set before the answer has come."""
        try:
            request = next(conversation)
            while True:
                if self._stop.is_set():
                    raise Interrupted("the run is being ended", url=request.url)
                response = self._client.request_with_retries(request, self._log, stopped=self._stop.is_set)
                request = conversation.send(response)
        except StopIteration as done:
            result: T = done.value
            return result
