#!/usr/bin/env python3
"""Builds the wheel, unpacks it, and drives its packages, as programs do.

  python_wheel.py --build BUILD --plan PLAN.fb --model MODEL.gguf --moec PATH --work DIR

The plan decodes four texts together. Standard library only; --compiler builds the wheel with the compiler.
"""
import argparse
import asyncio
import ctypes
import glob
import hashlib
import base64
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPTS = ["In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness",
           "And it came to pass", "The LORD is my shepherd", "Blessed are the"]
TEMPLATE = """{#- "<tool_call>" -#}{{ bos_token }}{%- for message in messages %}And they said unto him, \
{{ message.content }}
{% endfor %}And he answered and said unto them,"""
GREEDY = {"max_tokens": 16, "temperature": 0}
CONVERSATION = [{"role": "user", "content": "What is thy name?"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"place": {"enum": ["heaven", "earth"]}}, "required": ["place"],
    "additionalProperties": False}}}


def expect(error, words, call):
    """Expects that the call fails with this error, whose message has the words."""
    try:
        call()
    except error as raised:
        assert words in raised.message, raised.message
        return raised
    raise AssertionError(f"no {error.__name__}: {words}")


def build_wheel(options):
    """Returns the folder with the wheel's packages."""
    shutil.rmtree(options.work, ignore_errors=True)
    build = [sys.executable, os.path.join(SOURCE, "tools/python/build-wheel.py"), options.build, options.work]
    wheel = subprocess.run(build + ["--compiler"] * options.compiler, check=True, capture_output=True,
                           text=True).stdout.strip()
    match = re.fullmatch(r"moert-[0-9.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl", os.path.basename(wheel))
    assert match, wheel
    site = os.path.join(options.work, "site packages")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
        record = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode().splitlines()
        assert sorted(line.split(",")[0] for line in record) == sorted(names)
        for line in record:
            name, digest, size = line.split(",")
            if digest:
                data = archive.read(name)
                right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert digest == "sha256=" + right and int(size) == len(data), name
        archive.extractall(site)
    check_glibc(site, int(match.group(1)))
    return site


def check_glibc(site, promised):
    """No file asks for more than the wheel's name says, and none for what is not there."""
    files = glob.glob(site + "/*/lib/*.so*")
    assert any(file.endswith("/libmoert.so.0") for file in files)
    present = {os.path.basename(file) for file in files}
    usual = re.compile(r"(libc|libm|libstdc\+\+|libgcc_s|ld-linux-x86-64|libpthread|libdl|librt)\.so\.\d")
    for file in files:
        text = subprocess.run(["readelf", "-dVW", file], check=True, capture_output=True, text=True).stdout
        for version in re.findall(r"Name: GLIBC_2\.(\d+)", text):
            assert int(version) <= promised, (file, version)
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", text):
            assert name in present or usual.match(name), (file, name)


def check_texts(engine, moert):
    """Streams, whole texts and batches say the same, and know what they are."""
    assert engine.info.architecture == "deepseek2" and engine.info.sequences == 4
    assert moert.__version__.count(".") == 2
    for prompt in PROMPTS:  # Fills the cache: cached prompts are evaluated by other kernels, which may decide near ties differently.
        engine.generate(prompt, **GREEDY)
    alone = [engine.generate(prompt, **GREEDY) for prompt in PROMPTS]
    assert [each.text for each in engine.batch(PROMPTS, **GREEDY)] == [each.text for each in alone]
    events = list(engine.stream(PROMPTS[0], logprobs=2, **GREEDY))
    assert "".join(map(str, events)) == alone[0].text and len(events) > 3
    assert all(event.kind == "text" and len(each.top) == 2 for event in events for each in event.logprobs)
    assert sum(len(event.logprobs) for event in events) == 16
    first = alone[0]
    assert first.finish == "length" and len(first.tokens) == 16 and first.usage.generated_tokens == 16
    assert first.usage.prompt_tokens == len(engine.tokenize(PROMPTS[0])) and first.usage.cached_tokens > 0
    assert engine.detokenize(first.tokens) == first.text
    assert engine.detokenize([engine.info.bos], control=True) != engine.detokenize([engine.info.bos]) == ""
    assert engine.generate(engine.tokenize(PROMPTS[0]), moert.Options(**GREEDY)).text == first.text
    stop = first.text[5:8]
    stopped = engine.generate(PROMPTS[0], stop=["~~", stop], **GREEDY)
    assert stopped.finish == "stop" and stopped.stop == 1 and first.text.startswith(stopped.text)
    banned = engine.generate(PROMPTS[0], logit_bias={first.tokens[0]: -100}, **GREEDY)
    assert banned.tokens[0] != first.tokens[0]
    different = {engine.generate("And", max_tokens=12, temperature=1, seed=seed).text for seed in range(6)}
    assert len(different) > 1


def check_constraints(engine, moert):
    schema = {"type": "object", "properties": {"light": {"type": "boolean"}, "day": {"type": "integer", "minimum": 1,
              "maximum": 7}}, "required": ["light", "day"], "additionalProperties": False}
    for seed in range(4):
        value = engine.generate("Let there be", constraint=moert.Constraint.schema(schema), seed=seed).json()
        assert isinstance(value["light"], bool) and 1 <= value["day"] <= 7 and len(value) == 2
    day = moert.Constraint.regex("day [1-7]")
    assert all(re.fullmatch("day [1-7]", each.text) for each in engine.batch(PROMPTS, constraint=day, max_tokens=9))
    assert engine.generate("A", constraint=moert.Constraint.choices(["yea", "nay"])).text in ("yea", "nay")
    assert engine.generate("A", constraint=moert.Constraint.grammar('root ::= "so" "be"? " it"')).text in ("so it",
                                                                                                        "sobe it")
    expect(moert.UsageError, "not", lambda: moert.Constraint.schema({"not": {}}))
    expect(moert.UsageError, "regex", lambda: moert.Constraint.regex("("))


def check_embeddings(engine):
    """Beside texts, and the closer the more alike; the same tokens give the same."""
    background = engine.stream("And", max_tokens=-1, ignore_eos=True)
    texts = ["the sons of Israel", "the children of Israel", "a pound of butter and salt"]
    vectors = [each.values for each in engine.embed(texts)]
    background.cancel()
    assert all(len(vector) == engine.info.hidden for vector in vectors)
    assert all(abs(sum(x * x for x in vector) - 1) < 1e-3 for vector in vectors)
    near, far = (sum(a * b for a, b in zip(vectors[0], other)) for other in vectors[1:])
    assert near > far, (near, far)
    assert list(engine.embed(texts[:1], pooling="last")[0].values) != list(vectors[0])
    again = asyncio.run(engine.embed_async(texts[:1]))[0]
    assert max(abs(a - b) for a, b in zip(again.values, vectors[0])) < 1e-2
    assert again.usage.prompt_tokens == len(engine.tokenize(texts[0]))


def check_chat(engine, moert):
    answer = engine.chat(CONVERSATION, **GREEDY)
    assert answer.text and answer.message() == {"role": "assistant", "content": answer.text}
    assert "".join(map(str, engine.stream_chat(CONVERSATION, **GREEDY))) == engine.chat(CONVERSATION, **GREEDY).text
    place = {"type": "object", "properties": {"place": {"enum": ["heaven", "earth"]}}, "required": ["place"],
             "additionalProperties": False}
    # Such a small model fills its context with the blanks that JSON allows.
    few_blanks = {"max_tokens": 200, "logit_bias": {
        token: -100 for blank in "\t\n\r " for token in engine.tokenize(f"a{blank}", add_bos=False)[1:]}}
    assert engine.chat(CONVERSATION, schema=place, **few_blanks).json()["place"] in ("heaven", "earth")
    assert engine.chat(CONVERSATION, constraint=moert.Constraint.choices(["I am"])).text == "I am"
    one_call = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, **few_blanks}
    called = engine.chat(CONVERSATION, **one_call)
    assert called.finish == "calls" and called.calls[0].name == "look" and called.calls[0].id, called
    assert called.calls[0].json()["place"] in ("heaven", "earth")
    assert called.message()["tool_calls"][0]["function"]["name"] == "look"
    kinds = [event.kind for event in engine.stream_chat(CONVERSATION, **one_call)]
    assert kinds[0] == "call" and kinds[-1] == "call_end" and "arguments" in kinds, kinds
    text = engine.chat_text(CONVERSATION)
    assert text.endswith("And he answered and said unto them,") and CONVERSATION[0]["content"] in text
    expect(moert.UsageError, "temperature", lambda: engine.chat(CONVERSATION, temperature="hot"))
    expect(moert.UsageError, "messages", lambda: engine.chat([]))
    expect(moert.UsageError, "not JSON", lambda: engine.chat([{"role": "user", "content": b"x"}]))
    expect(moert.UsageError, "both", lambda: engine.chat(CONVERSATION, schema={}, response_format={"type": "text"}))


def check_sessions(engine, moert, work):
    """Beside texts that are generated, sessions evaluate, go back, are copied and kept."""
    background = engine.stream("And", max_tokens=-1, ignore_eos=True)
    with engine.session(private=True) as session:
        session.append("In the beginning")
        begun = len(session)
        scores = session.logits(" God")
        assert len(scores) == engine.vocabulary and len(session) > begun
        best = max(range(len(scores)), key=lambda token: scores[token])
        copy = session.fork()
        said = copy.generate([best], max_tokens=8, temperature=0)
        assert said and len(copy) > len(session)
        session.rewind(begun)
        again = session.logits(" God")
        assert max(abs(a - b) for a, b in zip(scores, again)) < 0.5  # Other kernels have evaluated the same tokens.
        path = os.path.join(work, "text.seq")
        session.save(path)
        restored = engine.restore(path)
        assert len(restored) == len(session)
        assert list(restored.logits([best])) == list(session.logits([best]))
        expect(moert.UsageError, "position", lambda: session.rewind(10**6))
        expect(moert.UsageError, "constraint", lambda: session.generate("a", logprobs=1))
        expect(moert.UsageError, "numbers", lambda: session.append([None]))
        restored.close()
        expect(moert.UsageError, "closed", lambda: len(restored))
        del copy
    expect(moert.FileError, "nowhere", lambda: engine.restore("/nowhere/text.seq"))
    assert len(engine.logits(PROMPTS[0])) == engine.vocabulary
    background.cancel()


def finished(engine):
    """How many texts were cancelled, when none runs any more."""
    while True:
        stats = engine.stats
        if stats["submitted"] == stats["finished"] + stats["cancelled"] + stats["failed"]:
            return stats["cancelled"]
        time.sleep(0.001)


def check_cancellation(engine, moert):
    endless = dict(max_tokens=-1, ignore_eos=True)
    before = finished(engine)
    generation = engine.stream("And", **endless)
    next(iter(generation))
    threading.Thread(target=generation.cancel).start()
    try:
        generation.result()
        ended = 0  # The context was full before the cancellation.
    except moert.CancelledError:
        ended = 1
    assert finished(engine) == before + ended
    with engine.stream("And", **endless) as left:
        next(iter(left))
    del left
    forgotten = engine.stream("And", **endless)
    del forgotten
    finished(engine)

    async def several():
        results = await asyncio.gather(*(engine.generate_async(prompt, **GREEDY) for prompt in PROMPTS * 4))
        assert [each.text for each in results] == [each.text for each in engine.batch(PROMPTS * 4, **GREEDY)]
        text = "".join([str(event) async for event in engine.stream_async(PROMPTS[1], **GREEDY)])
        assert text == results[1].text
        assert (await engine.chat_async(CONVERSATION, constraint=moert.Constraint.choices(["I am"]))).text == "I am"
        try:
            await engine.chat_async([])
            raise AssertionError("no messages, no error")
        except moert.UsageError:
            pass

        # As many generations as fill the engine, so that the last ones are cancelled before they begin.
        before = finished(engine)
        tasks = [asyncio.create_task(engine.generate_async("And", **endless)) for _ in range(40)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        assert finished(engine) > before + 20

    asyncio.run(several())
    assert engine.cache["free_pages"] > 0


def check_errors(moert, plan):
    assert expect(moert.DoesNotFitError, "context", lambda: moert.Engine(plan, context=10**6)).remedy == ""
    expect(moert.FileError, "/nowhere", lambda: moert.Engine("/nowhere/plan.fb"))
    assert issubclass(moert.FileError, OSError) and issubclass(moert.UsageError, ValueError)
    expect(moert.InvalidFileError, "", lambda: moert.Engine(__file__))
    engine = moert.Engine(plan)
    expect(moert.UsageError, "there is no option 'heat'", lambda: engine.generate("a", heat=1))
    expect(moert.UsageError, "temperature", lambda: engine.generate("a", temperature=-1))
    expect(moert.UsageError, "context", lambda: engine.generate([5] * 5000))
    expect(moert.UnsupportedError, "chat template", lambda: engine.chat(CONVERSATION))
    expect(moert.UsageError, "pooling", lambda: engine.embed(["a"], pooling="sum"))
    # Closing ends running generations, and waiting ones get an error.
    running = [engine.stream("And", max_tokens=-1, ignore_eos=True) for _ in range(2)]
    session = engine.session()
    engine.close()
    engine.close()
    for generation in running:
        try:
            generation.result()
        except moert.CancelledError:
            pass
    session.close()
    expect(moert.UsageError, "closed", lambda: engine.generate("a"))
    expect(moert.UsageError, "closed", lambda: engine.session())


def check_compiler(moec, moert, options):
    os.environ["PATH"] = os.path.dirname(shutil.which(options.moec)) + ":" + os.environ["PATH"]
    plan = os.path.join(options.work, "again.fb")
    report = moec.compile(options.model, target="native", output=plan, ctx=128, sequences=2)
    assert report["output"] == plan and report["decode_tokens_per_second"] > 0
    error = expect(moert.DoesNotFitError, "larger context", lambda: moert.Engine(plan, context=256))
    assert "moec compile" in error.remedy and str(error).endswith("next: " + error.remedy)
    explained = moec.explain(plan)
    assert explained["context"] == 128 and explained["sequences"] == 2
    assert moec.model(options.model)["architecture"] == "deepseek2" and "4090" in moec.targets()
    assert moec.targets("4090") and moec.formats() and moec.architectures()
    error = expect(moec.Error, "no such file", lambda: moec.compile("/nowhere.gguf"))
    assert error.code == 4
    expect(moec.Error, "4091", lambda: moec.compile(options.model, target="4091"))
    if not options.compiler:
        path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        expect(moec.Error, "no compiler", lambda: moec.explain(plan))
        os.environ["PATH"] = path


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "plan", "model", "moec", "work"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--compiler", action="store_true")
    options = parser.parse_args()
    site = build_wheel(options)
    sys.path.insert(0, site)
    import moec
    import moert
    assert moert.__file__.startswith(site)
    with moert.Engine(options.plan, chat_template=TEMPLATE) as engine:
        check_texts(engine, moert)
        check_constraints(engine, moert)
        check_embeddings(engine)
        check_chat(engine, moert)
        check_sessions(engine, moert, options.work)
        check_cancellation(engine, moert)
    check_errors(moert, options.plan)
    check_compiler(moec, moert, options)
    print("wheel: ok")


main()
