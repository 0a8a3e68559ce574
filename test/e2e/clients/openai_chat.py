"""The official client of OpenAI: models, completions and chat."""
import asyncio
import json

import openai
import pydantic

from .common import (City, ENOUGH, FUNCTION_TOOL, KEY, MESSAGES, MODEL, TOOL, TOOL_SCHEMA, check, check_word, refused,
                     wait_idle)

CHAT = {"model": MODEL, "messages": MESSAGES, "max_tokens": 8}
LONG = {"model": MODEL, "messages": MESSAGES, "max_tokens": ENOUGH}
NAMED = {"type": "function", "function": {"name": TOOL}}


def client(target, **options):
    return openai.OpenAI(**{"base_url": target.base + "/v1", "api_key": KEY, "max_retries": 0, **options})


def open_async(target):
    return openai.AsyncOpenAI(base_url=target.base + "/v1", api_key=KEY, max_retries=0)


@check("text")
def models(target):
    api = client(target)
    assert [model.id for model in api.models.list()] == [MODEL]
    assert api.models.retrieve(MODEL).object == "model"
    with refused(openai.NotFoundError) as error:
        api.models.retrieve("nothing")
    assert error[0].code == "model_not_found" and error[0].param == "model", error[0].body


@check("text")
def completions(target):
    create = client(target).completions.create
    two = create(model=MODEL, prompt=["a", "The sky is"], max_tokens=4)
    assert [choice.index for choice in two.choices] == [0, 1] and two.usage.completion_tokens <= 8, two
    assert len(create(model=MODEL, prompt="The sky", max_tokens=4, n=2, best_of=2).choices) == 2
    assert create(model=MODEL, prompt="The sky", max_tokens=4, echo=True).choices[0].text.startswith("The sky")
    assert create(model=MODEL, prompt=[[5, 6, 7], [8]], max_tokens=2).usage.prompt_tokens == 4
    found = create(model=MODEL, prompt="The sky is", max_tokens=3, logprobs=2).choices[0].logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.text_offset), found
    # There are three if the chosen token is not among the two.
    assert all(len(top) in (2, 3) for top in found.top_logprobs) and found.text_offset[0] == 0, found


@check("text")
def completion_stream(target):
    fields = {"model": MODEL, "prompt": "The sky", "max_tokens": 6, "temperature": 0}
    api = client(target).completions
    api.create(**fields)  # Fills the cache: with a cached prompt, sums are rounded differently.
    *chunks, last = api.create(**fields, stream=True, stream_options={"include_usage": True})
    assert last.choices == [] and last.usage.completion_tokens <= 6, last
    assert chunks[-1].choices[0].finish_reason in ("stop", "length"), chunks[-1]
    streamed = "".join(chunk.choices[0].text for chunk in chunks)
    assert streamed == api.create(**fields).choices[0].text, streamed


@check("text")
def completion_constraints(target):
    create = client(target).completions.create
    text = create(model=MODEL, prompt="x", max_tokens=9, extra_body={"guided_choice": ["yes", "no"]}).choices[0].text
    assert text in ("yes", "no"), text
    text = create(model=MODEL, prompt="x", max_tokens=9, extra_body={"guided_regex": "[0-9]{3}"}).choices[0].text
    assert len(text) == 3 and text.isdigit(), text
    text = create(model=MODEL, prompt="x", max_tokens=9, extra_body={"grammar": 'root ::= "a" "b"?'}).choices[0].text
    assert text in ("a", "ab"), text


@check("chat")
def chat(target):
    create = client(target).chat.completions.create
    answer = create(**CHAT)
    assert answer.choices[0].message.role == "assistant" and answer.usage.completion_tokens <= 8, answer
    assert len(create(**CHAT, n=3).choices) == 3
    assert create(**{**CHAT, "max_tokens": openai.omit}, max_completion_tokens=2).choices[0].finish_reason == "length"
    # The client sends the content of answers back unchanged.
    message = create(**LONG).choices[0].message
    for sent in (message, message.model_dump()):
        assert create(model=MODEL, messages=[*MESSAGES, sent, *MESSAGES], max_tokens=1).usage.prompt_tokens > 0
    # Fields of other servers that have no use here are no error.
    create(**CHAT, seed=3, user="u", metadata={"a": "b"}, store=False, service_tier="auto", reasoning_effort="low",
           prompt_cache_key="k", logit_bias={"5": -100}, frequency_penalty=0.1, presence_penalty=0.1, top_p=0.9)


@check("chat")
def chat_is_repeatable(target):
    create = client(target).chat.completions.create
    texts = {create(**CHAT, seed=7, temperature=1).choices[0].message.model_dump_json() for _ in range(3)}
    # The first evaluates the whole prompt, the others the last token of a known one, which rounds otherwise.
    assert len(texts) <= 2, texts


@check("chat")
def chat_stream(target):
    api = client(target).chat.completions
    chunks = list(api.create(**CHAT, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0, chunks[-1]
    assert chunks[-2].choices[0].finish_reason in ("stop", "length"), chunks[-2]
    assert len({chunk.id for chunk in chunks}) == 1
    with api.stream(**LONG) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "content.delta")
        assert stream.get_final_completion().choices[0].message.content == deltas


@check("chat")
def raw_responses(target):
    api = client(target).chat.completions
    raw = api.with_raw_response.create(**CHAT)
    assert raw.headers["content-type"].startswith("application/json") and raw.parse().choices, raw.headers
    with api.with_streaming_response.create(**CHAT, stream=True) as raw:
        assert raw.headers["content-type"].startswith("text/event-stream"), raw.headers
        assert [line for line in raw.iter_lines() if line][-1] == "data: [DONE]"


@check("chat")
def logprobs(target):
    content = client(target).chat.completions.create(**LONG, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert content and all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in content), content
    with refused(openai.BadRequestError) as error:
        client(target).chat.completions.create(**CHAT, top_logprobs=2)
    assert error[0].param == "top_logprobs", error[0].body


@check("chat")
def structured(target):
    api = client(target).chat.completions
    assert isinstance(api.parse(**LONG, response_format=City).choices[0].message.parsed, City)
    with api.stream(**LONG, response_format=City) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, City)
    with refused(openai.LengthFinishReasonError):
        api.parse(**{**LONG, "max_tokens": 2}, response_format=City)
    with refused(openai.BadRequestError) as error:
        api.create(**CHAT, response_format={"type": "json_schema", "json_schema": {
            "name": "n", "schema": {"type": "object", "properties": {"a": {"$ref": "other.json"}}}}})
    assert "$ref" in error[0].message, error[0].body


@check("chat", "reasons")
def reasoning(target):
    message = client(target).chat.completions.create(**LONG).choices[0].message
    assert message.reasoning_content and message.content, message
    chunks = list(client(target).chat.completions.create(**LONG, stream=True))
    streamed = "".join(getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks)
    assert streamed == message.reasoning_content, streamed
    quiet = client(target).chat.completions.create(**LONG, reasoning_effort="none").choices[0].message
    assert not getattr(quiet, "reasoning_content", None) and quiet.content, quiet


@check("tools")
def tools(target):
    api = client(target).chat.completions
    for choice in ("required", NAMED):
        found = api.create(**LONG, tools=[FUNCTION_TOOL], tool_choice=choice).choices[0]
        assert found.finish_reason == "tool_calls" and found.message.content is None, found
        call, = found.message.tool_calls[:1]
        assert call.function.name == TOOL and call.id, call
        check_word(call.function.arguments)
    unused = api.create(**CHAT, tools=[FUNCTION_TOOL], tool_choice="none").choices[0].message
    assert not unused.tool_calls, unused
    history = [*MESSAGES, found.message, {"role": "tool", "tool_call_id": call.id, "content": "found"}]
    assert api.create(**{**LONG, "messages": history}, tools=[FUNCTION_TOOL]).choices[0].finish_reason
    for wrong in ({"type": "function", "function": {"name": "nothing"}}, "sometimes"):
        with refused(openai.BadRequestError) as error:
            api.create(**CHAT, tools=[FUNCTION_TOOL], tool_choice=wrong)
        assert error[0].param.startswith("tool_choice"), error[0].body


@check("tools")
def tool_stream(target):
    api = client(target).chat.completions
    chunks = list(api.create(**LONG, tools=[FUNCTION_TOOL], tool_choice=NAMED, parallel_tool_calls=False, stream=True))
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert deltas[0].id and deltas[0].function.name == TOOL and all(delta.index == 0 for delta in deltas), deltas
    assert all(delta.id is None for delta in deltas[1:]), deltas
    check_word("".join(delta.function.arguments for delta in deltas))
    assert chunks[-1].choices[0].finish_reason == "tool_calls", chunks[-1]
    with api.stream(**LONG, tools=[FUNCTION_TOOL], tool_choice="required") as stream:
        kinds = {event.type for event in stream}
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert "tool_calls.function.arguments.done" in kinds, kinds
    check_word(call.function.arguments)


@check("tools")
def tool_parsed(target):
    class Look(pydantic.BaseModel):
        word: str
    tool = openai.pydantic_function_tool(Look)
    # The client leaves bounds out of schemas.
    tool["function"]["parameters"]["properties"]["word"]["maxLength"] = 8
    found = client(target).chat.completions.parse(**LONG, tools=[tool], tool_choice="required").choices[0].message
    assert isinstance(found.tool_calls[0].function.parsed_arguments, Look), found


@check("calls")
def tool_chosen(target):
    found = client(target).chat.completions.create(**LONG, tools=[FUNCTION_TOOL]).choices[0]
    assert found.finish_reason == "tool_calls", found
    assert json.loads(found.message.tool_calls[0].function.arguments) == {"word": "heart"}, found


@check("calls")
def tool_cut(target):
    """A reply that ends inside a call says that its length did."""
    found = client(target).chat.completions.create(**{**LONG, "max_tokens": 4}, tools=[FUNCTION_TOOL]).choices[0]
    assert found.finish_reason == "length", found


@check("chat")
def mistakes(target):
    create = client(target).chat.completions.create
    for param, fields in {
            "temperature": {"temperature": 9e9}, "messages": {"messages": []}, "n": {"n": 0},
            "messages[0].role": {"messages": [{"role": "alien", "content": "x"}]},
            "messages[0].content[0].type": {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:"}}]}]},
            "response_format.type": {"response_format": {"type": "yaml"}},
            "logit_bias.x": {"logit_bias": {"x": 1}}}.items():
        with refused(openai.BadRequestError) as error:
            create(**{**CHAT, **fields})
        assert error[0].param == param and error[0].type == "invalid_request_error", error[0].body
    with refused(openai.BadRequestError) as error:
        create(model=MODEL, messages=[{"role": "user", "content": "a b c d " * 9000}])
    assert error[0].code == "context_length_exceeded", error[0].body


@check("chat")
def many_at_a_time(target):
    async def run():
        async with open_async(target) as api:
            answers = await asyncio.gather(*[api.chat.completions.create(**CHAT) for _ in range(8)])
            chunks = [chunk async for chunk in await api.chat.completions.create(**CHAT, stream=True)]
            return len(answers), chunks[-1].choices[0].finish_reason
    assert asyncio.run(run()) in ((8, "stop"), (8, "length"))


@check("chat", "slow")
def clients_that_leave(target):
    fields = {**CHAT, "max_tokens": 3000, "extra_body": {"ignore_eos": True}}
    stream = client(target).chat.completions.create(**fields, stream=True)
    next(iter(stream))
    stream.close()
    wait_idle(target)

    async def cancel():
        async with open_async(target) as api:
            task = asyncio.create_task(api.chat.completions.create(**fields))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
    asyncio.run(cancel())
    wait_idle(target)
    with refused(openai.APITimeoutError):
        client(target, timeout=0.3).chat.completions.create(**fields)
    wait_idle(target)


@check("keys")
def keys(target):
    assert client(target).models.list().data
    with refused(openai.AuthenticationError) as error:
        client(target, api_key="wrong").chat.completions.create(**CHAT)
    assert error[0].status_code == 401 and "wrong" not in error[0].message, error[0].body


@check("full", "slow")
def full(target):
    """Who finds no place is told when to come again, which the client does by itself."""
    fields = {**CHAT, "max_tokens": 3000, "extra_body": {"ignore_eos": True}}

    async def run():
        async with open_async(target) as api:
            placed = []
            # One request runs and one waits.
            with refused(openai.InternalServerError) as error:
                for _ in range(3):
                    placed.append(asyncio.create_task(api.chat.completions.create(**fields)))
                    await asyncio.wait(placed, timeout=0.3)
                    for task in placed:
                        if task.done():
                            task.result()
            for task in placed:
                task.cancel()
            await asyncio.wait(placed)
            return error[0]
    error = asyncio.run(run())
    assert error.status_code == 503 and int(error.response.headers["retry-after"]) > 0, error.response.headers
    assert client(target, max_retries=5).chat.completions.create(**CHAT).choices
