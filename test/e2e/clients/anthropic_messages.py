"""The official client of Anthropic."""
import asyncio

import anthropic

from .common import ENOUGH, KEY, MESSAGES, MODEL, TOOL, TOOL_SCHEMA, TOOL_TEXT, check, check_word, refused, wait_idle

SHORT = {"model": MODEL, "max_tokens": 8, "messages": MESSAGES}
LONG = {"model": MODEL, "max_tokens": ENOUGH, "messages": MESSAGES}
TOOLS = [{"name": TOOL, "description": TOOL_TEXT, "input_schema": TOOL_SCHEMA}]
GREEDY = {"temperature": 0}


def client(target, key=KEY):
    return anthropic.Anthropic(base_url=target.base, api_key=key, max_retries=0)


@check("chat")
def models(target):
    assert [model.id for model in client(target).models.list()] == [MODEL]
    assert client(target).models.retrieve(MODEL).id == MODEL


@check("chat")
def whole(target):
    create = client(target).messages.create
    answer = create(**LONG, system="Be short.")
    assert answer.content[-1].text and answer.stop_reason in ("end_turn", "max_tokens"), answer
    assert create(**{**SHORT, "max_tokens": 1}).stop_reason == "max_tokens"
    marked = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"role": "user", "content": [{"type": "text", "text": "Say hello.", **marked}]}]
    first = create(model=MODEL, max_tokens=1, messages=blocks, system=[{"type": "text", "text": "Be short.", **marked}])
    assert first.usage.cache_read_input_tokens > 0, first
    # The client sends the content of answers back unchanged.
    history = [*MESSAGES, {"role": "assistant", "content": answer.content}, *MESSAGES]
    assert create(model=MODEL, max_tokens=1, messages=history).usage.output_tokens == 1


@check("chat")
def stop_sequence(target):
    create = client(target).messages.create
    text = create(**LONG, extra_body=GREEDY).content[-1].text
    stop = text[2:4]
    answer = create(**LONG, stop_sequences=[stop], extra_body=GREEDY)
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == stop, (text, answer)


@check("chat")
def stream(target):
    api = client(target).messages
    kinds = [event.type for event in api.create(**SHORT, stream=True)]
    assert kinds[:3] == ["message_start", "content_block_start", "content_block_delta"], kinds
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    with api.stream(**LONG) as events:
        text = "".join(events.text_stream)
        final = events.get_final_message()
    assert final.content[-1].text == text and final.usage.output_tokens > 0, final

    async def run():
        async with anthropic.AsyncAnthropic(base_url=target.base, api_key=KEY) as api:
            async with api.messages.stream(**LONG) as events:
                return await events.get_final_text()
    assert asyncio.run(run())


@check("chat")
def count(target):
    counted = client(target).messages.count_tokens
    alone = counted(model=MODEL, messages=MESSAGES).input_tokens
    used = client(target).messages.create(**SHORT).usage
    assert alone == used.input_tokens + used.cache_read_input_tokens > 0, (alone, used)
    more = [*MESSAGES, {"role": "assistant", "content": "Hello."}, *MESSAGES]
    assert counted(model=MODEL, messages=more).input_tokens > alone


@check("chat", "reasons")
def thinking(target):
    create = client(target).messages.create
    enabled = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    answer = create(**LONG, **enabled)
    assert [block.type for block in answer.content] == ["thinking", "text"], answer
    with client(target).messages.stream(**LONG, **enabled) as events:
        kinds = {event.type for event in events}
        assert events.get_final_message().content[0].thinking == answer.content[0].thinking
    assert "thinking" in kinds, kinds
    quiet = create(**LONG, thinking={"type": "disabled"})
    assert [block.type for block in quiet.content] == ["text"], quiet


@check("tools")
def tools(target):
    api = client(target).messages
    for choice in ({"type": "any"}, {"type": "tool", "name": TOOL}):
        answer = api.create(**LONG, tools=TOOLS, tool_choice=choice)
        call, = [block for block in answer.content if block.type == "tool_use"][:1]
        assert answer.stop_reason == "tool_use" and call.name == TOOL and call.id, answer
        check_word(call.input)
    with api.stream(**LONG, tools=TOOLS, tool_choice={"type": "any"}) as events:
        kinds = [event.type for event in events]
        check_word([block for block in events.get_final_message().content if block.type == "tool_use"][0].input)
    assert "input_json" in kinds, kinds
    history = [*MESSAGES, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": "found"}]}]
    assert api.create(**{**LONG, "messages": history}, tools=TOOLS).stop_reason
    plain = api.count_tokens(model=MODEL, messages=MESSAGES).input_tokens
    assert api.count_tokens(model=MODEL, messages=MESSAGES, tools=TOOLS).input_tokens > plain


@check("calls")
def tool_chosen(target):
    answer = client(target).messages.create(**LONG, tools=TOOLS)
    assert answer.stop_reason == "tool_use" and answer.content[-1].input == {"word": "heart"}, answer


@check("chat")
def mistakes(target):
    create = client(target).messages.create
    for wrong in ({"max_tokens": 0}, {"messages": []}, {"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]}):
        with refused(anthropic.BadRequestError) as error:
            create(**{**SHORT, **wrong})
        body = error[0].body
        assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error", body


@check("chat", "slow")
def clients_that_leave(target):
    with client(target).messages.stream(model=MODEL, max_tokens=3000, messages=MESSAGES,
                                        extra_body={"ignore_eos": True}) as events:
        next(iter(events))
    wait_idle(target)


@check("keys")
def keys(target):
    assert client(target).models.list().data
    with refused(anthropic.AuthenticationError):
        client(target, key="wrong").messages.create(**SHORT)
