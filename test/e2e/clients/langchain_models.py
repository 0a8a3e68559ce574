"""LangChain's models of OpenAI (both interfaces), Anthropic and Ollama."""
import asyncio

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaLLM
from langchain_openai import ChatOpenAI, OpenAI

from .common import City, ENOUGH, KEY, MODEL, check


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return word


def openai_model(target, most, **options):
    return ChatOpenAI(base_url=target.base + "/v1", api_key=KEY, model=MODEL, max_retries=0, max_tokens=most, **options)


def responses_model(target, most):
    return openai_model(target, most, use_responses_api=True)


def anthropic_model(target, most):
    return ChatAnthropic(base_url=target.base, api_key=KEY, model=MODEL, max_retries=0, max_tokens=most)


def ollama_model(target, most):
    return ChatOllama(base_url=target.base, model=MODEL, num_predict=most)


MODELS = (openai_model, responses_model, anthropic_model, ollama_model)
TALK = [SystemMessage("Be short."), HumanMessage("Hello."), AIMessage("Hi."), HumanMessage("Who is there?")]


@check("text")
def texts(target):
    for model in (OpenAI(base_url=target.base + "/v1", api_key=KEY, model=MODEL, max_tokens=5, max_retries=0),
                  OllamaLLM(base_url=target.base, model=MODEL, num_predict=5)):
        if "chat" in target.traits or isinstance(model, OpenAI):
            assert isinstance(model.invoke("The sky is"), str)
            assert list(model.stream("The sky is"))


@check("chat")
def chat(target):
    for make in MODELS:
        model = make(target, 8)
        used = model.invoke(TALK).usage_metadata
        assert used["input_tokens"] > 0 and 0 < used["output_tokens"] <= 8, (make, used)
        assert len(list(model.stream(TALK))) > 1, make
        assert len(model.batch(["a", "b", "c"])) == 3, make


@check("chat")
def chat_async(target):
    async def run(make):
        # A model keeps connections of the loop in which it was first used.
        model = make(target, 8)
        assert (await model.ainvoke(TALK)).usage_metadata["output_tokens"] > 0
        assert len(await model.abatch(["a", "b"])) == 2
        assert [chunk async for chunk in model.astream(TALK)]
        return [event["event"] async for event in model.astream_events("Hello.", version="v2")]

    async def all_models():
        return [await run(make) for make in MODELS]
    for events in asyncio.run(all_models()):
        assert events[0] == "on_chat_model_start" and events[-1] == "on_chat_model_end", events


@check("chat")
def structured(target):
    for make in (openai_model, responses_model, ollama_model):
        model = make(target, ENOUGH).with_structured_output(City, method="json_schema")
        assert isinstance(model.invoke("A city."), City), make


@check("calls")
def tools(target):
    for make in MODELS:
        model = make(target, ENOUGH).bind_tools([look_up])
        answer = model.invoke("Heart?")
        call, = answer.tool_calls
        assert call["name"] == "look_up" and call["args"] == {"word": "heart"}, (make, answer)
        chunks = list(model.stream("Heart?"))
        assert sum(chunks[1:], chunks[0]).tool_calls[0]["args"] == call["args"], (make, chunks)
        talk = [HumanMessage("Heart?"), answer, ToolMessage("found", tool_call_id=call["id"])]
        assert model.invoke(talk).tool_calls, make


@check("tools")
def tools_required(target):
    for make in (openai_model, responses_model, anthropic_model):
        model = make(target, ENOUGH).with_structured_output(City, method="function_calling")
        assert isinstance(model.invoke("A city."), City), make
