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


def check_assistants(base):
    """Assistants, threads and runs, which are stored between requests."""
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
    beta = client.beta
    assistant = beta.assistants.create(model=MODEL, instructions="Be brief.", name="Ann")
    assert [one.id for one in beta.assistants.list()] == [assistant.id]
    assert beta.assistants.update(assistant.id, description="kind").description == "kind"
    thread = beta.threads.create(messages=MESSAGES)
    run = beta.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id, max_completion_tokens=8,
                                            poll_interval_ms=50)
    assert run.status in ("completed", "incomplete"), run
    answer = beta.threads.messages.list(thread.id, run_id=run.id).data[0]
    assert answer.role == "assistant" and answer.content[0].text.value, answer
    assert beta.threads.runs.steps.list(run.id, thread_id=thread.id).data[0].type == "message_creation"

    class Listener(openai.AssistantEventHandler):
        text, seen = "", None

        def on_text_delta(self, delta, snapshot):
            self.text += delta.value
            assert snapshot.value == self.text, (snapshot, self.text)

        def on_message_done(self, message):
            self.seen = message

    beta.threads.messages.create(thread.id, role="user", content="And now?")
    with beta.threads.runs.stream(thread_id=thread.id, assistant_id=assistant.id, max_completion_tokens=8,
                                  event_handler=Listener()) as stream:
        stream.until_done()
        assert stream.text and stream.seen.content[0].text.value == stream.text, stream.seen
        assert stream.current_run.status in ("completed", "incomplete"), stream.current_run
    add = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {
        "type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"],
        "additionalProperties": False}}}
    run = beta.threads.create_and_run_poll(assistant_id=assistant.id, thread={"messages": MESSAGES}, tools=[add],
                                           tool_choice="required", parallel_tool_calls=False,
                                           poll_interval_ms=50)
    assert run.status == "requires_action", run
    calls = run.required_action.submit_tool_outputs.tool_calls
    assert all(json.loads(call.function.arguments)["x"] in range(10) for call in calls), calls
    outputs = [{"tool_call_id": call.id, "output": "3"} for call in calls]
    refused(openai.BadRequestError, beta.threads.messages.create, run.thread_id, role="user", content="x")
    with beta.threads.runs.submit_tool_outputs_stream(run_id=run.id, thread_id=run.thread_id, tool_outputs=outputs,
                                                      event_handler=openai.AssistantEventHandler()) as stream:
        kinds = [event.event for event in stream]
    assert kinds[0] == "thread.run.step.completed" and kinds[1] == "thread.run.queued", kinds
    waiting = beta.threads.create_and_run(assistant_id=assistant.id, thread={"messages": MESSAGES})
    if waiting.status in ("queued", "in_progress"):
        try:
            assert beta.threads.runs.cancel(waiting.id, thread_id=waiting.thread_id).status == "cancelled"
        except openai.BadRequestError:
            pass  # It was over sooner.
    for one in (thread.id, run.thread_id, waiting.thread_id):
        assert beta.threads.delete(one).deleted
    assert beta.assistants.delete(assistant.id).deleted
    refused(openai.NotFoundError, beta.assistants.retrieve, assistant.id)
    first = client.responses.create(model=MODEL, input="Say hi.", max_output_tokens=8)
    assert client.responses.retrieve(first.id).output_text == first.output_text
    assert client.responses.input_items.list(first.id).data[0].content[0].text == "Say hi."
    assert client.responses.create(model=MODEL, input="Again.", previous_response_id=first.id, max_output_tokens=8).output
    client.responses.delete(first.id)
    refused(openai.NotFoundError, client.responses.retrieve, first.id)
    print("assistants: ok")


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
        for check in (check_openai, check_assistants, check_anthropic, check_ollama):
            check(server.base)
        server.stop()
    finally:
        server.process.kill()
    print("clients: ok")


main()
