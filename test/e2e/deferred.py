"""Measures the perplexity of a text that the model knows, with and without deferred experts.

  deferred.py MOERT PLAIN.fb DEFERRED.fb TEXT
"""
import json
import subprocess
import sys

GENESIS = """In the beginning God created the heaven and the earth.
And the earth was without form, and void; and darkness was upon the face of the deep. And the Spirit of God moved upon the face of the waters.
And God said, Let there be light: and there was light.
And God saw the light, that it was good: and God divided the light from the darkness.
And God called the light Day, and the darkness he called Night. And the evening and the morning were the first day.
And God said, Let there be a firmament in the midst of the waters, and let it divide the waters from the waters.
And God made the firmament, and divided the waters which were under the firmament from the waters which were above the firmament: and it was so.
"""
moert, plain, deferred, text = sys.argv[1:]
with open(text, "w") as file:
    file.write(GENESIS)


def perplexity(plan, *more):
    done = subprocess.run([moert, "perplexity", plan, "--file", text, "--ctx", "48", "--json", *more],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["perplexity"]


prompts, steps = perplexity(plain), perplexity(plain, "--step")
late, late_steps = perplexity(deferred), perplexity(deferred, "--step")
print(f"plain {prompts:.4f}, by step {steps:.4f}; deferred {late:.4f}, by step {late_steps:.4f}")
assert abs(steps / prompts - 1) < 0.01, "generation is as good as prompts are"
assert late == prompts, "prompts defer nothing"
# Deferring changes the results; on so short a text only a little, and in either direction.
assert 0.001 < abs(late_steps / steps - 1) < 0.5, "generation defers"
