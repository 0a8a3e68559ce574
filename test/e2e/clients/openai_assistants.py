"""The official client of OpenAI: assistants, threads, messages and runs."""
import json
import warnings

import openai

from .common import ENOUGH, FUNCTION_TOOL, MODEL, TOOL, check, check_word, refused
from .openai_chat import client


def beta(target):
    warnings.simplefilter("ignore", DeprecationWarning)  # The client calls this interface deprecated.
    return client(target).beta


def begin(target, **fields):
    """An assistant, and a thread with one message."""
    api = beta(target)
    assistant = api.assistants.create(model=MODEL, name="A", instructions="Be short.", **fields)
    thread = api.threads.create(messages=[{"role": "user", "content": "Say hello."}], metadata={"a": "b"})
    return api, assistant, thread


@check("chat")
def objects(target):
    api, assistant, thread = begin(target)
    assert api.assistants.retrieve(assistant.id).instructions == "Be short."
    assert api.assistants.update(assistant.id, name="B").name == "B"
    assert assistant.id in [each.id for each in api.assistants.list(limit=2)]
    assert api.threads.retrieve(thread.id).metadata == {"a": "b"}
    assert api.threads.update(thread.id, metadata={"c": "d"}).metadata == {"c": "d"}
    added = [api.threads.messages.create(thread.id, role="user", content=f"{i}.") for i in range(3)]
    # Pages of two, followed by the client.
    listed = [each.id for each in api.threads.messages.list(thread.id, order="asc", limit=2)]
    assert listed[1:] == [each.id for each in added], listed
    assert listed[::-1] == [each.id for each in api.threads.messages.list(thread.id, limit=2)]
    first = api.threads.messages.retrieve(added[0].id, thread_id=thread.id)
    assert first.content[0].text.value == "0.", first
    api.threads.messages.update(added[0].id, thread_id=thread.id, metadata={"e": "f"})
    assert api.threads.messages.delete(added[0].id, thread_id=thread.id).deleted
    assert api.threads.delete(thread.id).deleted and api.assistants.delete(assistant.id).deleted
    for gone in (lambda: api.threads.retrieve(thread.id), lambda: api.assistants.retrieve(assistant.id)):
        with refused(openai.NotFoundError):
            gone()


@check("chat")
def run(target):
    api, assistant, thread = begin(target)
    done = api.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id, max_completion_tokens=ENOUGH)
    assert done.status in ("completed", "incomplete") and done.usage.completion_tokens > 0, done
    answer, = api.threads.messages.list(thread.id, run_id=done.id)
    assert answer.role == "assistant" and answer.content[0].text.value, answer
    step, = api.threads.runs.steps.list(done.id, thread_id=thread.id)
    assert step.step_details.message_creation.message_id == answer.id, step
    assert api.threads.runs.retrieve(done.id, thread_id=thread.id).status == done.status
    assert [each.id for each in api.threads.runs.list(thread.id)] == [done.id]
    both = api.threads.create_and_run_poll(assistant_id=assistant.id, max_completion_tokens=ENOUGH,
                                           thread={"messages": [{"role": "user", "content": "Say hello."}]})
    assert both.status == done.status, both


@check("chat")
def run_stream(target):
    api, assistant, thread = begin(target)

    class Handler(openai.AssistantEventHandler):
        def __init__(self):
            super().__init__()
            self.kinds, self.text = [], ""

        def on_event(self, event):
            self.kinds.append(event.event)

        def on_text_delta(self, delta, snapshot):
            self.text += delta.value

    handler = Handler()
    with api.threads.runs.stream(thread_id=thread.id, assistant_id=assistant.id, max_completion_tokens=ENOUGH,
                                 event_handler=handler) as stream:
        stream.until_done()
        message, = stream.get_final_messages()
    assert message.content[0].text.value == handler.text, (message, handler.text)
    assert handler.kinds[:3] == ["thread.run.created", "thread.run.queued", "thread.run.in_progress"], handler.kinds
    assert "thread.message.completed" in handler.kinds or "thread.message.incomplete" in handler.kinds, handler.kinds


@check("calls")
def run_tools(target):
    api, assistant, thread = begin(target, tools=[FUNCTION_TOOL])
    waiting = api.threads.runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
    assert waiting.status == "requires_action", waiting
    call, = waiting.required_action.submit_tool_outputs.tool_calls
    assert call.function.name == TOOL, call
    check_word(call.function.arguments)
    outputs = [{"tool_call_id": call.id, "output": json.dumps("found")}]
    # The model only ever calls, so that its answer is another call.
    again = api.threads.runs.submit_tool_outputs_and_poll(run_id=waiting.id, thread_id=thread.id, tool_outputs=outputs)
    assert again.status == "requires_action", again
    assert api.threads.runs.cancel(again.id, thread_id=thread.id).status in ("cancelling", "cancelled")


@check("chat", "slow")
def run_cancelled(target):
    api, assistant, thread = begin(target)
    api.threads.messages.create(thread.id, role="user", content="Write a book of a thousand pages. " * 100)
    run = api.threads.runs.create(thread.id, assistant_id=assistant.id)
    with refused(openai.BadRequestError):  # A run is still going on.
        api.threads.messages.create(thread.id, role="user", content="x")
    api.threads.runs.cancel(run.id, thread_id=thread.id)
    assert api.threads.runs.poll(run_id=run.id, thread_id=thread.id).status == "cancelled"
