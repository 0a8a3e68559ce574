"""Texts for real_models.py: beginnings to be continued, and prose of this repository."""
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

PROMPTS = (
    "The capital of France is",
    "Water boils at a temperature of",
    "Once upon a time, in a small village by the sea, there lived",
    "The three states of matter are",
    "To make a good cup of tea, you first",
    "In the year 1969, two astronauts",
    "The most important thing about learning to swim is",
    "def fibonacci(n):\n",
    "Photosynthesis is the process by which",
    "My favourite season is autumn because",
    "The train left the station at seven in the morning and",
    "A list of healthy foods: apples,",
    "Dear Sir or Madam,\n\nI am writing to",
    "The difference between weather and climate is",
    "When the lights went out, everyone in the room",
    "Computers store numbers as",
    "The old clock on the wall had stopped many years ago, and",
    "If you mix blue and yellow paint, you get",
    "Birds migrate in winter because",
    "Shakespeare wrote many plays, among them",
)


def prose():
    """Paragraphs of the tree's documentation, without tables, lists, headings, examples and comments."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split()
    paragraphs = []
    for name in sorted(names):
        with open(os.path.join(ROOT, name)) as file:
            blocks = file.read().split("\n\n")
        paragraphs += [" ".join(block.split()) for block in blocks if block[:1].isupper() and block.count(" ") > 20]
    return "\n\n".join(paragraphs)
