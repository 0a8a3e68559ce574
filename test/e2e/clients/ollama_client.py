"""The official client of Ollama."""
import asyncio

import ollama

from .common import City, ENOUGH, FUNCTION_TOOL, KEY, MESSAGES, MODEL, TOOL, check, check_word, refused, wait_idle

FEW = {"num_predict": 8}
MANY = {"num_predict": ENOUGH}


def client(target, key=KEY):
    return ollama.Client(host=target.base, headers={"Authorization": f"Bearer {key}"})


@check("text")
def models(target):
    api = client(target)
    assert [model.model for model in api.list().models] == [MODEL]
    running, = api.ps().models
    assert running.model == MODEL and running.context_length > 0, running
    shown = api.show(MODEL)
    assert shown.modelinfo["general.architecture"] and "completion" in shown.capabilities, shown


@check("text")
def generate(target):
    api = client(target)
    fields = {"model": MODEL, "prompt": "The sky", "raw": True, "options": {**FEW, "temperature": 0}}
    api.generate(**fields)  # Fills the cache: with a cached prompt, sums are rounded differently.
    answer = api.generate(**fields)
    assert answer.done and answer.eval_count <= 8 and answer.prompt_eval_count > 0 and answer.total_duration > 0, answer
    lines = list(api.generate(**fields, stream=True))
    assert lines[-1].done and not lines[0].done, lines
    assert "".join(line.response for line in lines) == answer.response, (lines, answer)
    assert api.generate(model=MODEL, prompt="").done_reason == "load"
    # These are all fields that Ollama documents; some have no meaning here.
    api.generate(model=MODEL, prompt="Hi", raw=True, keep_alive="5m", options={
        **FEW, "num_ctx": 512, "num_keep": 5, "seed": 3, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "typical_p": 1.0,
        "repeat_last_n": 33, "repeat_penalty": 1.2, "presence_penalty": 1.5, "frequency_penalty": 1.0, "stop": ["x"],
        "mirostat": 0, "num_batch": 2, "num_gpu": 1, "num_thread": 8, "use_mmap": True})


@check("chat")
def chat(target):
    api = client(target)
    answer = api.chat(model=MODEL, messages=MESSAGES, options=MANY)
    assert answer.message.role == "assistant" and answer.message.content, answer
    lines = list(api.chat(model=MODEL, messages=MESSAGES, options=FEW, stream=True))
    assert lines[-1].done and lines[-1].done_reason in ("stop", "length") and lines[-1].eval_count > 0, lines[-1]
    assert api.generate(model=MODEL, prompt="Hi", system="Be short.", options=MANY).response
    assert api.chat(model=MODEL, messages=[]).done_reason == "load"

    async def run():
        lines = await ollama.AsyncClient(host=target.base).chat(MODEL, MESSAGES, options=FEW, stream=True)
        return [line.done async for line in lines]
    assert asyncio.run(run())[-1]


@check("chat")
def structured(target):
    schema = City.model_json_schema()
    City.model_validate_json(client(target).chat(MODEL, MESSAGES, format=schema, options=MANY).message.content)
    City.model_validate_json(client(target).generate(MODEL, "A city.", format=schema, options=MANY).response)


@check("chat", "reasons")
def thinking(target):
    api = client(target)
    assert api.chat(MODEL, MESSAGES, think=True, options=MANY).message.thinking
    quiet = api.chat(MODEL, MESSAGES, think=False, options=MANY).message
    assert quiet.content and not quiet.thinking, quiet
    assert "thinking" in api.show(MODEL).capabilities


@check("calls")
def tools(target):
    api = client(target)

    def look_up(word: str) -> str:
        """Looks a word up.

        Args:
            word: the word
        """
        return word
    for tool in (FUNCTION_TOOL, look_up):
        message = api.chat(MODEL, MESSAGES, tools=[tool], options=MANY).message
        call, = message.tool_calls
        assert call.function.name == TOOL and call.function.arguments == {"word": "heart"}, message
    lines = list(api.chat(MODEL, MESSAGES, tools=[FUNCTION_TOOL], options=MANY, stream=True))
    call, = [call for line in lines for call in line.message.tool_calls or []]
    check_word(call.function.arguments)
    history = [*MESSAGES, message, {"role": "tool", "tool_name": TOOL, "content": "found"}]
    assert api.chat(MODEL, history, tools=[FUNCTION_TOOL], options=MANY).done
    assert "tools" in api.show(MODEL).capabilities


@check("text")
def mistakes(target):
    api = client(target)
    with refused(ollama.ResponseError) as error:
        api.generate(MODEL, "x", options={"temperature": -5})
    assert error[0].status_code == 400 and "options.temperature" in error[0].error, error[0]
    assert api.pull(MODEL).status == "success"
    with refused(ollama.ResponseError) as error:
        api.push(MODEL)
    assert error[0].status_code == 404, error[0]


@check("chat", "slow")
def clients_that_leave(target):
    lines = client(target).chat(MODEL, MESSAGES, options={"num_predict": 3000}, stream=True)
    next(lines)
    lines.close()
    wait_idle(target)


@check("keys")
def keys(target):
    assert client(target).list().models
    with refused(ollama.ResponseError) as error:
        client(target, key="wrong").list()
    assert error[0].status_code == 401, error[0]
