"""Clients of every kind for serve_load.py: what each sends, and what it expects of the answer."""
import http.client
import json
import random
import socket
import struct

WORDS = ("and the of to that in he shall unto for his a they be is him not them it with all thou thy was God which my me "
         "said but ye their have will LORD man from this upon king day people house land come Israel children son earth "
         "heaven water light darkness evening morning men brethren servant city hand heart eyes word bread wine").split()

# In natural logarithms. Kernels of prompts and of decoding round otherwise; what they find for the same text differs by
# less than this, and a token may be another one where two are closer than this.
MOST_ROUNDING = 0.5


class Wrong(Exception):
    """An answer that no client may get."""


class Case:
    """A greedy request and what it gets when it is alone."""

    def __init__(self, prompt, most):
        self.prompt, self.most, self.alone = prompt, most, None

    def body(self, **more):
        return {"prompt": self.prompt, "max_tokens": self.most, "temperature": 0, "logprobs": 5, "ignore_eos": True, **more}


def make_cases(count, seed):
    """Prompts from a word to most of the context, of which some begin alike."""
    rng = random.Random(seed)
    cases = []
    for i in range(count):
        words = rng.choices(WORDS, k=(1, 3, 6, 12, 30, 80, 160, 220)[i % 8])
        if i % 5 == 4:
            words = cases[-1].prompt.split() + words[:20]
        cases.append(Case(" ".join(words[:230]), rng.choice((1, 2, 5, 16, 40, 80))))
    return cases


def tokens_of(choices):
    """The tokens of logprobs of one choice, or of the pieces of a stream: (token, logprob, top)."""
    found = []
    for choice in choices:
        part = choice.get("logprobs")
        if part:
            found += zip(part["tokens"], part["token_logprobs"], part["top_logprobs"])
    return found


def compare(case, tokens):
    """Whether the tokens differ from those alone, from a near tie on. Any other difference is wrong."""
    alone = case.alone
    for i, (token, logprob, _) in enumerate(tokens):
        if i >= len(alone):
            raise Wrong(f"{len(tokens)} tokens, alone {len(alone)}: {case.prompt!r}")
        expected, expected_logprob, top = alone[i]
        if token != expected:
            gap = expected_logprob - top.get(token, -1e9)
            if gap > MOST_ROUNDING:
                raise Wrong(f"token {i} is {token!r}, alone {expected!r} by {gap:.3f}: {case.prompt!r}")
            return True
        if abs(logprob - expected_logprob) > MOST_ROUNDING:
            raise Wrong(f"token {i} {token!r} has logprob {logprob}, alone {expected_logprob}: {case.prompt!r}")
    if len(tokens) != len(alone):
        raise Wrong(f"{len(tokens)} tokens, alone {len(alone)}: {case.prompt!r}")
    return False


def request_bytes(path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


MALFORMED = [
    b"\x00\xff\xfe", b"GET\r\n\r\n", b"POST /v1/completions HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    request_bytes("/v1/completions", b"{"), request_bytes("/v1/completions", b"\xff\xfe{}"),
    request_bytes("/v1/completions", {"prompt": {"a": 1}}), request_bytes("/v1/completions", {"prompt": "a", "n": 10**9}),
    request_bytes("/v1/completions", {"prompt": [10**9]}), request_bytes("/v1/completions", {"prompt": "a", "temperature": -1}),
    request_bytes("/v1/completions", b"[" * 100000), request_bytes("/v1/chat/completions", {"messages": 7}),
    request_bytes("/v1/completions", {"prompt": "a", "grammar": "root ::= nowhere"}),
    request_bytes("/v1/completions", {"prompt": "a", "guided_regex": "(" * 5000}),
    request_bytes("/v1/messages", {"messages": [{}], "max_tokens": "x"}), request_bytes("/api/chat", b"null"),
]
OVERSIZED = [
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1099511627776\r\n\r\n", (413,)),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n", (431,)),
    (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, 431)),
    (request_bytes("/v1/completions", {"prompt": "word " * 5000}), (400,)),
    (request_bytes("/v1/completions", {"prompt": "a", "max_tokens": 2**40}), (400,)),
    (request_bytes("/v1/completions", {"prompt": "a", "stop": ["s"] * 1000}), (400,)),
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}},
          "required": ["a", "b"], "additionalProperties": False}


class Client:
    """One thread's client. `report` counts what happened and keeps sockets that stay open."""

    def __init__(self, address, cases, report, seed):
        self.address, self.cases, self.report, self.rng = address, cases, report, random.Random(seed)
        self.connection = None

    def connect(self, **options):
        connection = socket.create_connection(self.address, timeout=120)
        for name, value in options.items():
            connection.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        return connection

    def post(self, path, body):
        """Status and text of an answer, on a connection that is sometimes new."""
        for _ in range(2):
            reused = self.connection is not None and self.rng.random() < 0.7
            if not reused:
                self.close()
                self.connection = http.client.HTTPConnection(*self.address, timeout=120)
            try:
                self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = self.connection.getresponse()
                text = answer.read().decode()
            except (http.client.RemoteDisconnected, ConnectionError):
                # The server may have closed a connection that was idle.
                self.close()
                if not reused:
                    raise
                continue
            if answer.status >= 500 and answer.status != 503:
                raise Wrong(f"{path}: {answer.status} {text}")
            if answer.status == 503 and not answer.headers["Retry-After"]:
                raise Wrong("503 without Retry-After")
            return answer.status, text
        raise Wrong("two connections were closed without an answer")

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def checked(self, case, choices, timings):
        self.report.count("ties" if compare(case, tokens_of(choices)) else "equal")
        self.report.timings.append((timings["prompt_n"], timings["queue_steps"], timings["prompt_steps"]))

    def whole(self):
        """Takes an answer of one piece. Returns whether the server took the request."""
        case = self.rng.choice(self.cases)
        status, text = self.post("/v1/completions", case.body())
        if status == 503:
            self.report.count("refused")
            return False
        if status != 200:
            raise Wrong(f"{status}: {text}")
        answer = json.loads(text)
        self.checked(case, answer["choices"], answer["timings"])
        return True

    def stream(self, slow=False, leave_after=None):
        """Reads a stream: slowly, or until it leaves after so many bytes without a word."""
        case = self.rng.choice(self.cases)
        connection = self.connect(**({"SO_RCVBUF": 2048} if slow else {}))
        connection.sendall(request_bytes("/v1/completions", case.body(stream=True)))
        port, text = connection.getsockname()[1], b""
        while not text.endswith(b"0\r\n\r\n") and not (text and not text.startswith(b"HTTP/1.1 200")):
            part = connection.recv(700 if slow else 65536)
            if not part:
                break
            text += part
            if slow:
                self.report.sleep(0.01)
            if leave_after is not None and len(text) >= leave_after:
                if self.rng.random() < 0.5: # Half of the clients close with a reset.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
                return self.report.count("left")
        connection.close()
        if text.startswith(b"HTTP/1.1 503"):
            return self.report.count("refused")
        data = [line[6:] for line in text.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: ")]
        if not text.startswith(b"HTTP/1.1 200") or not data or data[-1] != b"[DONE]":
            raise Wrong(f"a stream to port {port} ended with {text[-200:]!r}")
        chunks = [json.loads(each) for each in data[:-1]]
        self.checked(case, [choice for chunk in chunks for choice in chunk["choices"]], chunks[-1]["timings"])

    def slow(self):
        self.stream(slow=True)

    def leave(self):
        self.stream(leave_after=self.rng.choice((0, 100, 800, 3000)))

    def leave_at_once(self):
        connection = self.connect()
        connection.sendall(request_bytes("/v1/completions", self.rng.choice(self.cases).body(max_tokens=200)))
        connection.close()
        self.report.count("left")

    def half_open(self):
        """Sends some of a request, or one whose answer nobody reads, and stays."""
        connection = self.connect(SO_RCVBUF=2048)
        text = request_bytes("/v1/completions", self.rng.choice(self.cases).body(stream=True))
        connection.sendall(text[:self.rng.choice((0, 5, 60, len(text) - 1, len(text)))])
        self.report.keep(connection)
        self.report.count("half open")

    def malformed(self):
        self.expect(self.rng.choice(MALFORMED), range(400, 506))
        self.report.count("malformed")

    def oversized(self):
        self.expect(*self.rng.choice(OVERSIZED))
        self.report.count("oversized")

    def expect(self, text, statuses):
        connection = self.connect()
        answer = b""
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except ConnectionError:
            pass # The server need not read what it has refused.
        connection.close()
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None
        if answer and (status not in statuses or status == 500):
            raise Wrong(f"{text[:200]!r}: {answer[:200]!r}")

    def constrained(self):
        status, text = self.post("/v1/completions", {
            "prompt": "A man:", "max_tokens": 100, "seed": self.rng.randrange(1000), "temperature": 1, "response_format": {
                "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}})
        if status == 503:
            return self.report.count("refused")
        choice = json.loads(text)["choices"][0]
        if choice["finish_reason"] == "stop":
            value = json.loads(choice["text"])
            if set(value) != {"a", "b"} or not 0 <= value["a"] <= 99 or value["b"] not in "xy":
                raise Wrong(f"outside the schema: {choice}")
            self.report.count("by schema")

    def anything(self):
        kinds = ((self.whole, 8), (self.stream, 5), (self.slow, 2), (self.leave, 4), (self.leave_at_once, 1),
                 (self.half_open, 1), (self.malformed, 3), (self.oversized, 2), (self.constrained, 2))
        self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
