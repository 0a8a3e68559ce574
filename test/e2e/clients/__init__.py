"""Checks of `moert serve` with official clients, one module for each: importing them registers the checks."""
from . import (anthropic_messages, embeddings, langchain_models, ollama_client, openai_assistants,  # noqa: F401
               openai_chat, openai_responses)
