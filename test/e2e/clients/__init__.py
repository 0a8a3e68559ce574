"""Checks of `moert serve` with official clients, one module for each: importing them registers the checks."""
from . import anthropic_messages, langchain_models, ollama_client, openai_chat, openai_responses  # noqa: F401
