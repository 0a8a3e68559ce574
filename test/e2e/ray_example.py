#!/usr/bin/env python3
"""Runs tools/python/examples/ray_serve.py on a local Ray, and drives it as clients do.

  ray_example.py --build BUILD --plan PLAN.fb --work DIR

Needs the PyPI package ray[serve].
"""
import argparse
import concurrent.futures
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPT = "In the beginning God created"


def post(base, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, data), timeout=600) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check_requests(base, expected):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        asked = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0}
        for status, text in pool.map(lambda _: post(base, "/generate", asked), range(32)):
            assert status == 200 and text == expected, (status, text, expected)
    status, text = post(base, "/generate", {"prompt": PROMPT, "heat": 1})
    assert status == 400 and "heat" in text, text
    status, text = post(base, "/generate", b"{")
    assert status == 400, text
    status, text = post(base, "/chat", {"messages": [{"role": "user", "content": "Hello"}]})
    assert status == 503 and "chat template" in text, text  # The model has no chat template.
    assert post(base, "/nothing", {})[0] == 404


def check_leaving(base):
    """Texts of clients that leave are cancelled: there are more than run together, so that many have not ended."""
    body = json.dumps({"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True}).encode()
    head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    clients = []
    for _ in range(40):
        clients.append(socket.create_connection(base[len("http://"):].split(":")))
        clients[-1].sendall(head + body)
    for client in clients:
        assert client.recv(8) == b"HTTP/1.1"
        client.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stats = json.loads(post(base, "/stats", {})[1])
        if stats["cancelled"] > 0 and stats["submitted"] == stats["cancelled"] + stats["finished"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"texts of clients that left go on: {stats}")


def check_scaling(serve, base):
    """Long texts of many clients bring a second replica."""
    def replicas():
        application = serve.status().applications["default"]
        return sum(application.deployments["PlanServer"].replica_states.values())

    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        deadline = time.monotonic() + 300
        asked = {"prompt": PROMPT, "max_tokens": 64, "ignore_eos": True}
        running = [pool.submit(post, base, "/generate", asked) for _ in range(48)]
        while replicas() < 2 and time.monotonic() < deadline:
            running = [each for each in running if not each.done()]
            running += [pool.submit(post, base, "/generate", asked) for _ in range(48 - len(running))]
            time.sleep(0.2)
        assert replicas() == 2, "no second replica came"
        for each in running:
            assert each.result()[0] == 200


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "plan", "work"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    site = os.path.join(os.path.abspath(options.work), "site")
    subprocess.run([sys.executable, os.path.join(SOURCE, "tools/python/build-wheel.py"), options.build, options.work],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.unpack_archive(glob.glob(options.work + "/*.whl")[0], site, "zip")
    sys.path[:0] = [site, os.path.join(SOURCE, "tools/python/examples")]
    # Replicas find the packages through this variable.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2] + [os.environ.get("PYTHONPATH", "")])
    # A slow machine takes longer than Ray waits for its own parts.
    for check in ("READY", "HEALTH"):
        os.environ[f"RAY_SERVE_PROXY_{check}_CHECK_TIMEOUT_S"] = "120"
    import moert
    import ray
    import ray_serve as example
    from ray import serve
    with moert.Engine(options.plan) as engine:
        expected = engine.generate(PROMPT, max_tokens=24, temperature=0).text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        for attempt in range(4):
            try:
                serve.start(http_options={"host": "127.0.0.1", "port": port})
                break
            except TimeoutError:
                if attempt == 3:
                    raise
        serve.run(example.application(os.path.abspath(options.plan), 1, 2, 1))
        base = f"http://127.0.0.1:{port}"
        check_requests(base, expected)
        check_leaving(base)
        check_scaling(serve, base)
    finally:
        serve.shutdown()
        ray.shutdown()
    print("ray: ok")


main()
