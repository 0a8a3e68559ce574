#!/usr/bin/env python3
"""Drives `moert serve` with the official Python clients of OpenAI, Anthropic and Ollama.

  serve_clients.py --moert PATH --plan PLAN.fb

The plan's model must have a chat template. Needs the PyPI packages openai, anthropic and ollama.
"""
import argparse
import json
import time
import urllib.request

import anthropic
import ollama
import openai

from serve import Server

MODEL = "model"
MESSAGES = [{"role": "user", "content": "Say hello."}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
          "additionalProperties": False}


def refused(kind, call, *arguments, **fields):
    try:
        call(*arguments, **fields)
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}")


def check_openai(base):
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    chat = client.chat.completions.create
    assert chat(model=MODEL, messages=MESSAGES, max_tokens=8).usage.completion_tokens <= 8
    chunks = list(chat(model=MODEL, messages=MESSAGES, max_tokens=8, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices == [], chunks
    token = chat(model=MODEL, messages=MESSAGES, max_tokens=3, logprobs=True, top_logprobs=2).choices[0].logprobs.content[0]
    assert len(token.top_logprobs) == 2 and token.logprob <= 0, token
    assert len(chat(model=MODEL, messages=MESSAGES, max_tokens=4, n=3).choices) == 3
    text = chat(model=MODEL, messages=MESSAGES, max_tokens=60, response_format={
        "type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}).choices[0].message.content
    assert set(json.loads(text)) == {"city"}, text
    assert len(client.completions.create(model=MODEL, prompt=["a", "The sky is"], max_tokens=4).choices) == 2
    assert client.responses.create(model=MODEL, input="Say hi.", max_output_tokens=8).output_text
    kinds = [event.type for event in client.responses.create(model=MODEL, input="Hi.", max_output_tokens=4, stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
    refused(openai.BadRequestError, chat, model=MODEL, messages=MESSAGES, temperature=9e9)
    refused(openai.APIStatusError, client.embeddings.create, model=MODEL, input="x")
    stream = chat(model=MODEL, messages=MESSAGES, max_tokens=2000, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + 20
    while json.load(urllib.request.urlopen(base + "/slots")):
        assert time.monotonic() < deadline, "a client that left keeps its place"
        time.sleep(0.05)
    print("openai: ok")


def check_anthropic(base):
    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
    assert client.messages.create(model=MODEL, max_tokens=8, messages=MESSAGES).content[0].text
    with client.messages.stream(model=MODEL, max_tokens=8, messages=MESSAGES) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().content[0].text == text
    assert client.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens > 0
    refused(anthropic.BadRequestError, client.messages.create, model=MODEL, max_tokens=0, messages=MESSAGES)
    print("anthropic: ok")


def check_ollama(base):
    client = ollama.Client(host=base)
    few = {"num_predict": 8}
    assert client.chat(model=MODEL, messages=MESSAGES, options=few)["message"]["content"]
    assert list(client.chat(model=MODEL, messages=MESSAGES, options=few, stream=True))[-1]["done"]
    assert client.generate(model=MODEL, prompt="Hi", options=few)["response"]
    assert [model.model for model in client.list().models] == [MODEL]
    assert [model.model for model in client.ps().models] == [MODEL]
    assert client.show(MODEL).modelinfo
    print("ollama: ok")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moert", "--plan"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    server = Server(a.moert, [a.plan], "--alias", MODEL)
    try:
        for check in (check_openai, check_anthropic, check_ollama):
            check(server.base)
        server.stop()
    finally:
        server.process.kill()
    print("clients: ok")


main()
