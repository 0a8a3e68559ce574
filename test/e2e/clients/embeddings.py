"""Embeddings, by the clients of OpenAI and Ollama and by LangChain."""
import math

import ollama
import openai
from langchain_ollama import OllamaEmbeddings
from langchain_openai import OpenAIEmbeddings

from . import ollama_client, openai_chat
from .common import KEY, MODEL, check, refused

TEXTS = ["The sky is blue.", "And it came to pass"]


def check_close(vectors, others):
    """Vectors of the same texts, of which some had company, are those of one model: their angles are small."""
    for vector, other in zip(vectors, others, strict=True):
        cosine = sum(a * b for a, b in zip(vector, other, strict=True)) / math.hypot(*vector) / math.hypot(*other)
        assert cosine > 0.999, cosine


@check("text")
def clients(target):
    create = openai_chat.client(target).embeddings.create
    # The client asks for base64 by itself; so both forms are tried.
    whole = create(model=MODEL, input=TEXTS)
    plain = create(model=MODEL, input=TEXTS, encoding_format="float")
    vectors = [item.embedding for item in whole.data]
    check_close(vectors, [item.embedding for item in plain.data])
    assert [item.index for item in whole.data] == [0, 1] and whole.usage.prompt_tokens > 0, whole.usage
    assert vectors[0] != vectors[1] and abs(math.hypot(*vectors[0]) - 1) < 1e-3, math.hypot(*vectors[0])
    check_close(vectors, [create(model=MODEL, input=text).data[0].embedding for text in TEXTS])
    assert len(create(model=MODEL, input=[[5, 6, 7], [8]]).data) == 2
    short, = create(model=MODEL, input=TEXTS[0], dimensions=5).data
    assert len(short.embedding) == 5 and abs(math.hypot(*short.embedding) - 1) < 1e-3, short
    for param, fields in {"input": {"input": []}, "dimensions": {"input": "x", "dimensions": 0}}.items():
        with refused(openai.BadRequestError) as error:
            create(model=MODEL, **fields)
        assert error[0].param == param, error[0].body
    api = ollama_client.client(target)
    check_close(vectors, api.embed(MODEL, TEXTS).embeddings)
    check_close(vectors[:1], [api.embeddings(MODEL, TEXTS[0]).embedding])
    with refused(ollama.ResponseError) as error:
        api.embed(MODEL, "a b " * 9000, truncate=False)
    assert error[0].status_code == 400, error[0]


@check("text")
def langchain(target):
    models = (OpenAIEmbeddings(base_url=target.base + "/v1", api_key=KEY, model=MODEL, max_retries=0,
                               check_embedding_ctx_length=False),
              OllamaEmbeddings(base_url=target.base, model=MODEL))
    first, second = (model.embed_documents(TEXTS) for model in models)
    check_close(first, second)
    check_close(first[:1], [models[0].embed_query(TEXTS[0])])
