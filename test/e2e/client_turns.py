#!/usr/bin/env python3
"""Conversations of many turns with forced tool calls, by the official clients of OpenAI, Anthropic and Ollama.

  client_turns.py --moert PATH --turns N --seed K PLAN.fb

Each turn offers tools with schemas that the seed draws, and takes a call, streamed in every other turn. Its arguments
must be valid by the package jsonschema, and be in the prompt of the next turn as they were received, which
/apply-template tells. A conversation that has grown long is begun anew. Needs the PyPI packages openai, anthropic,
ollama and jsonschema.
"""
import argparse
import json
import random

import anthropic
import jsonschema
import ollama
import openai
from serve import Server

MODEL = "model"
MOST_CHARACTERS = 3000  # Limit for a conversation, because the context is a few thousand tokens.
# Limit for a call, which an unlucky model pads with up to 128 blanks at each place.
MOST_TOKENS = 1500


def draw_schema(draw):
    kinds = [{"type": "string", "maxLength": 12}, {"type": "integer", "minimum": -9, "maximum": 1000},
             {"type": "number", "minimum": 0, "maximum": 10, "multipleOf": 0.25}, {"type": "boolean"}, {"enum": ["red", "green", "blue"]},
             {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
             {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["x"]}]
    properties = {name: draw.choice(kinds) for name in draw.sample(["city", "day", "count", "unit", "tags", "at"], draw.randint(1, 4))}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class OpenAiTurns:
    """The conversation is kept in OpenAI's form by all classes; each writes it as its client does."""

    def __init__(self, base):
        self.client = openai.OpenAI(base_url=base + "/v1", api_key="none")

    def call(self, messages, tool, is_streamed, seed):
        fields = dict(model=MODEL, messages=messages, tools=[{"type": "function", "function": tool}], seed=seed,
                      tool_choice={"type": "function", "function": {"name": tool["name"]}}, max_tokens=MOST_TOKENS)
        if not is_streamed:
            calls = self.client.chat.completions.create(**fields).choices[0].message.tool_calls
            return calls[0].function.name, json.loads(calls[0].function.arguments)
        name, text = "", ""
        for chunk in self.client.chat.completions.create(stream=True, **fields):
            for part in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                name += part.function.name or ""
                text += part.function.arguments or ""
        return name, json.loads(text)


class AnthropicTurns:
    def __init__(self, base):
        self.client = anthropic.Anthropic(base_url=base, api_key="none")

    def call(self, messages, tool, is_streamed, seed):
        own = []
        for message in messages:
            if message["role"] == "assistant":
                call = message["tool_calls"][0]
                own.append({"role": "assistant", "content": [
                    {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
                     "input": json.loads(call["function"]["arguments"])}]})
            elif message["role"] == "tool":
                own.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"],
                                                         "content": message["content"]}]})
            else:
                own.append(message)
        fields = dict(model=MODEL, messages=own, max_tokens=MOST_TOKENS, tool_choice={"type": "tool", "name": tool["name"]},
                      tools=[{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}])
        if is_streamed:
            with self.client.messages.stream(**fields) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(**fields)
        use = [block for block in message.content if block.type == "tool_use"]
        return use[0].name, use[0].input


class OllamaTurns:
    def __init__(self, base):
        self.client = ollama.Client(host=base)

    def call(self, messages, tool, is_streamed, seed):
        own = []
        for message in messages:
            if message["role"] == "assistant":
                function = message["tool_calls"][0]["function"]
                own.append({"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": function["name"], "arguments": json.loads(function["arguments"])}}]})
            else:
                own.append({"role": message["role"], "content": message["content"]})
        # The interface has no way to force a call; the server takes OpenAI's field.
        answer = self.client._client.post("/api/chat", timeout=300, json={
            "model": MODEL, "messages": own, "stream": is_streamed, "tool_choice": "required",
            "tools": [{"type": "function", "function": tool}], "options": {"seed": seed, "num_predict": MOST_TOKENS}})
        lines = [ollama.ChatResponse(**json.loads(line)) for line in answer.text.splitlines()]
        calls = [call for line in lines for call in line.message.tool_calls or []]
        return calls[0].function.name, dict(calls[0].function.arguments)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plan")
    p.add_argument("--moert", required=True)
    p.add_argument("--turns", type=int, required=True)
    p.add_argument("--seed", type=int, required=True)
    a = p.parse_args()
    draw = random.Random(a.seed)
    server = Server(a.moert, [a.plan], "--alias", MODEL)
    begun = 0
    try:
        clients = [OpenAiTurns(server.base), AnthropicTurns(server.base), OllamaTurns(server.base)]
        conversations = [[] for _ in clients]
        for turn in range(a.turns):
            client, messages = clients[turn % 3], conversations[turn % 3]
            if len(json.dumps(messages)) > MOST_CHARACTERS:
                messages.clear()
            begun += not messages
            if not messages or messages[-1]["role"] == "tool":
                messages.append({"role": "user", "content": f"Please do number {draw.randint(1, 99)}."})
            tool = {"name": draw.choice(["look_up", "book", "measure"]), "description": "Does something.",
                    "parameters": draw_schema(draw)}
            name, arguments = client.call(messages, tool, turn // 3 % 2 == 1, draw.randint(0, 1 << 30))
            assert name == tool["name"], (name, tool)
            jsonschema.validate(arguments, tool["parameters"])
            identifier = f"call_{turn:09d}"
            messages.append({"role": "assistant", "content": None, "tool_calls": [
                {"id": identifier, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]})
            prompt = server.json("/apply-template", {"messages": messages})["prompt"]
            bare = prompt.replace(" ", "")
            for value in arguments.values():
                assert json.dumps(value, ensure_ascii=False).replace(" ", "") in bare, (value, prompt)
            messages.append({"role": "tool", "tool_call_id": identifier, "content": json.dumps({"ok": turn})})
        server.stop()
    finally:
        server.process.kill()
    print(f"{a.turns} turns in {begun} conversations: ok")


if __name__ == "__main__":
    main()
