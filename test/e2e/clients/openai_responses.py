"""The official client of OpenAI: responses."""
import openai

from .common import City, ENOUGH, MODEL, TOOL, TOOL_SCHEMA, TOOL_TEXT, check, check_word, refused
from .openai_chat import client

TOOLS = [{"type": "function", "name": TOOL, "description": TOOL_TEXT, "parameters": TOOL_SCHEMA, "strict": True}]
ASK = {"model": MODEL, "input": "Say hi."}
END = ("response.completed", "response.incomplete")


@check("chat")
def whole(target):
    create = client(target).responses.create
    answer = create(**ASK, max_output_tokens=ENOUGH, instructions="Be short.", temperature=0)
    assert answer.output_text and answer.usage.output_tokens > 0 and answer.instructions == "Be short.", answer
    cut = create(**ASK, max_output_tokens=1)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens", cut
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "Say hi."}]}]
    assert create(model=MODEL, input=parts, max_output_tokens=8).usage.input_tokens > 0


@check("chat")
def continued(target):
    create = client(target).responses.create
    first = create(**ASK, max_output_tokens=8)
    second = create(model=MODEL, input="Again.", previous_response_id=first.id, max_output_tokens=8)
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens, second
    with refused(openai.APIStatusError) as error:
        create(model=MODEL, input="Again.", previous_response_id="resp_none")
    assert error[0].status_code in (400, 404) and "resp_none" in error[0].message, error[0].body
    # A client may send what it got back as input instead.
    again = [{"role": "user", "content": "Say hi."}, *first.output, {"role": "user", "content": "Again."}]
    assert create(model=MODEL, input=again, max_output_tokens=8).usage.input_tokens == second.usage.input_tokens


@check("chat")
def kept(target):
    api = client(target).responses
    answer = api.create(**ASK, max_output_tokens=8)
    assert api.retrieve(answer.id).output_text == answer.output_text
    assert [item.role for item in api.input_items.list(answer.id)] == ["user"]
    api.delete(answer.id)
    unkept = api.create(**ASK, max_output_tokens=8, store=False)
    for gone in (answer.id, unkept.id):
        with refused(openai.NotFoundError):
            api.retrieve(gone)


@check("chat")
def stream(target):
    api = client(target).responses
    events = list(api.create(**ASK, max_output_tokens=8, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] in END, kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    with api.stream(**ASK, max_output_tokens=ENOUGH, text_format=City) as parsed:
        text = "".join(event.delta for event in parsed if event.type == "response.output_text.delta")
        final = parsed.get_final_response()
    assert final.output_text == text and isinstance(final.output_parsed, City), final
    assert isinstance(api.parse(**ASK, max_output_tokens=ENOUGH, text_format=City).output_parsed, City)


@check("chat", "reasons")
def reasoning(target):
    answer = client(target).responses.create(**ASK, max_output_tokens=ENOUGH)
    assert [item.type for item in answer.output] == ["reasoning", "message"], answer
    assert answer.output[0].content[0].text and answer.usage.output_tokens_details.reasoning_tokens > 0, answer
    kinds = [event.type for event in client(target).responses.create(**ASK, max_output_tokens=ENOUGH, stream=True)]
    assert kinds.index("response.reasoning_text.delta") < kinds.index("response.output_text.delta"), kinds


@check("tools")
def tools(target):
    create = client(target).responses.create
    fields = {**ASK, "max_output_tokens": ENOUGH, "tools": TOOLS}
    for choice in ("required", {"type": "function", "name": TOOL}):
        answer = create(**fields, tool_choice=choice)
        call, = [item for item in answer.output if item.type == "function_call"][:1]
        assert call.name == TOOL and call.call_id, answer
        check_word(call.arguments)
    events = list(create(**fields, tool_choice="required", stream=True))
    arguments = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    done, = [event for event in events if event.type == "response.function_call_arguments.done"][:1]
    assert done.arguments == arguments, (done, arguments)
    history = [{"role": "user", "content": "Say hi."}, call,
               {"type": "function_call_output", "call_id": call.call_id, "output": "found"}]
    assert create(**{**fields, "input": history}).output


@check("chat")
def mistakes(target):
    create = client(target).responses.create
    for param, fields in {"temperature": {"temperature": -1}, "background": {"background": True},
                          "text.format.type": {"text": {"format": {"type": "yaml"}}}}.items():
        with refused(openai.BadRequestError) as error:
            create(**ASK, **fields)
        assert error[0].param == param, error[0].body
