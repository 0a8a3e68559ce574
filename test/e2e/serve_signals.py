#!/usr/bin/env python3
"""Ends `moert serve` by two signals: after the first a request may go on, after the second nothing does.

  serve_signals.py --moert PATH --plan PLAN.fb
"""
import argparse
import http.client
import json
import signal
import time
import urllib.parse

from serve import Server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moert", required=True)
    parser.add_argument("--plan", required=True)
    arguments = parser.parse_args()
    server = Server(arguments.moert, [arguments.plan])
    address = urllib.parse.urlparse(server.base)
    # The client reads nothing of the answer, so that the answer does not end.
    connections = []
    for _ in range(4):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "In", "n": 128, "max_tokens": 400, "ignore_eos": True, "stream": True}))
        connections.append(connection)
    assert connections[0].getresponse().readline().startswith(b"data:")
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert server.process.poll() is None, "the first signal has ended it"
    status, headers, _ = server.request("/v1/completions", {"prompt": "In", "max_tokens": 1})
    assert status == 503 and headers["Retry-After"], (status, headers)
    start = time.monotonic()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=20) == -signal.SIGINT
    assert time.monotonic() - start < 5
    print("signals: ok")


if __name__ == "__main__":
    main()
