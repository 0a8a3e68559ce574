"""Compares every pre-tokenizer of the table with llama.cpp: token ids of random strings in twelve scripts.

Ids show where words end, because merges stop there. The vocabulary is made for this: it merges every pair of bytes
that occurs in the strings, in a random order, and nothing more. Where llama.cpp approximates the published rules of a
tokenizer (APPROXIMATED), the strings leave out what it gets wrong, and differences on whole strings are counted.
"""
import argparse
import collections
import json
import os
import random
import re
import struct
import subprocess
import sys
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import gguf_file
import llama_cpp

SCRIPTS = {
    "Latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéàüñßÉÀÜÑçøÅşğıİ",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЮЯёЁѐѝ",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψωΑΒΓΔΕΖΗΘάέήίόύώϊΐς",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئىة٠١٢٣٤٥\u064b\u064e\u0651،؟۔",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשתךםןףץ\u05b0\u05b8\u05bc־׳״",
    "Devanagari": "कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसहािीुूृेैोौंः\u094d\u0901०१२३।",
    "Thai": "กขคงจฉชซดตถทนบปผฝพฟภมยรลวศสหอฮะาำเแโใไ\u0e31\u0e34\u0e35\u0e48\u0e49ๆฯ๑๒๓",
    "Han": "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动㐀龥豈",
    "Kana": "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほアイウエオカキクケコサシスセソーガｱｲｳ",
    "Hangul": "가나다라마바사아자차카타파하한글국어각난닫ㄱㄴㅏ\u1112\u1161",
    "symbols": "😀🚀🦙❤\ufe0f👍\U0001f3fd👨\u200d👩★☃√∞≠€£¥©®°½²³⁵",
    "punctuation": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
}
RARE = "…。，、！？：；“”‘’—～「」（）　\u00a0\u2003\u200b\u200c\u200d\u0301\u0308\u2028\x85ʰǅǲªº"
BLANKS = [" "] * 5 + ["  ", "   ", "    ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n "]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'LL", "'D", "n't", "’s"]
LENGTHS = [1, 1, 2, 3, 4, 5, 6, 7, 9, 13]


def random_text(rng, script):
    def some(alphabet):
        return "".join(rng.choice(alphabet) for _ in range(rng.choice(LENGTHS)))
    parts = []
    for _ in range(rng.randint(3, 14)):
        parts.append(rng.choices(
            [lambda: some(SCRIPTS[script]), lambda: some(SCRIPTS[rng.choice(list(SCRIPTS))]),
             lambda: some("0123456789"), lambda: rng.choice(CONTRACTIONS),
             lambda: some(SCRIPTS["punctuation"])[:3], lambda: rng.choice(RARE), lambda: ""],
            [45, 10, 10, 7, 8, 5, 15])[0]())
        if rng.random() < .6:
            parts.append(rng.choice(BLANKS))
        if rng.random() < .03:
            parts.append(rng.choice([" " * rng.randint(2, 40), "\n" * rng.randint(2, 6)]))
    return "".join(parts)


def random_texts(count, seed=1):
    rng = random.Random(seed)
    return [random_text(rng, script) for script in SCRIPTS for _ in range(count)]


# Parts of a text that llama.cpp approximates correctly.
def without(text, *categories):
    return "".join(c for c in text if unicodedata.category(c) not in categories)


def lower(text):
    return without(text.lower(), "Mn", "Mc", "Me", "Lm", "Lt")


def cased_ascii(text):
    return "".join(c for c in without(text, "Mn", "Mc", "Me", "Lm", "Lt") if c.isascii() or c.lower() == c.upper())


NUMBERS = re.compile("[" + "".join(re.escape(chr(c)) for c in range(0x110000)
                                   if unicodedata.category(chr(c))[0] == "N") + "]+")


def number_after_letter(text):
    return NUMBERS.sub(lambda number: "x" + number[0], text)


def number_before_blank(text):
    return re.sub(r"(\d)(?=[^\W\d]|_)", r"\1 ", number_after_letter(without(lower(text), "No", "Nl")))


def no_wide_blanks(text):
    return re.sub("[\u2000-\u200a\u2028\u2029\u3000]", "", text)


O200K = "letters have no case outside ASCII, marks are no letters", (lower, cased_ascii)
CASELESS = "letters have no case", (lower,)
FROM_RIGHT = "the first digits of a number stay with the text before it", (number_before_blank,)
APPROXIMATED = {
    **dict.fromkeys(("gpt-4o", "kanana2", "llama4", "minimax-m2", "talkie", "tekken", "granite-embed-multi-97m"), O200K),
    "kimi-k2": CASELESS,
    "youtu": CASELESS,
    "tiny_aya": FROM_RIGHT,
    "cohere2moe": FROM_RIGHT,
    "afmoe": (FROM_RIGHT[0], (number_after_letter,)),
    "superbpe": ("only ASCII digits are counted", (lambda text: re.sub(r"[^\D0-9]", "", text),)),
    "deepseek-coder": ("blanks of the CJK range are no part of it", (no_wide_blanks,)),
    "deepseek-llm": ("digits stay together", (lambda text: NUMBERS.sub(lambda n: n[0][0], no_wide_blanks(text)),)),
}


def names(source):
    """Returns the names in the table: name -> alphabet."""
    with open(os.path.join(source, "runtime", "text", "PreTokenizers.def")) as file:
        return dict(re.findall(r'^MOE_PRETOKENIZER\("([^"]+)", (\w+)', file.read(), re.MULTILINE))


def byte_alphabet():
    """Returns GPT-2's alphabet: a printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


class Vocabulary:
    """Merges the pairs of symbols in `texts`, in an order given by `seed`, and nothing more. Some tokens result from no
    merge: words of `texts`, which only some tokenizers take as a whole."""

    def __init__(self, alphabet, texts, seed):
        if alphabet == "Bytes":
            spelling = byte_alphabet()
            symbols = [(spelling[byte], 1) for byte in range(256)]
            spelled = ["".join(spelling[byte] for byte in text.encode()) for text in texts]
        else:
            spelled = [text.replace(" ", "\u2581") for text in texts]
            symbols = [(c, 1) for c in sorted(set("".join(spelled))) if c not in "豈😀"]
            symbols += [(f"<0x{byte:02X}>", 6) for byte in range(256)]
        pairs = sorted({pair for text in spelled for pair in zip(text, text[1:])})
        rng = random.Random(seed)
        rng.shuffle(pairs)
        pairs = pairs[:60000]
        known = {symbol for symbol, _ in symbols} | {a + b for a, b in pairs}
        words = sorted({word for text in spelled for word in re.findall(r"Ġ?\w{3,}|Ċ{3,}|\n{3,}", text)} - known)
        tokens = symbols + [(a + b, 1) for a, b in pairs] + [(word, 1) for word in rng.sample(words, min(len(words), 500))]
        tokens += [("<|s|>", 3), ("<|e|>", 3)]
        self.file = gguf_file.GgufFile()
        self.file.keys = {
            "general.architecture": (gguf_file.STRING, "llama"),
            "tokenizer.ggml.model": (gguf_file.STRING, "gpt2"),
            "tokenizer.ggml.tokens": (gguf_file.ARRAY, (gguf_file.STRING, [token for token, _ in tokens])),
            "tokenizer.ggml.token_type": (gguf_file.ARRAY, (gguf_file.INT32, [kind for _, kind in tokens])),
            "tokenizer.ggml.merges": (gguf_file.ARRAY, (gguf_file.STRING, [f"{a} {b}" for a, b in pairs])),
            "tokenizer.ggml.bos_token_id": (gguf_file.UINT32, len(tokens) - 2),
            "tokenizer.ggml.eos_token_id": (gguf_file.UINT32, len(tokens) - 1),
        }

    def write(self, path, name):
        self.file.keys["tokenizer.ggml.pre"] = gguf_file.STRING, name
        self.file.write(path)


class Comparison:
    def __init__(self, arguments):
        self.tool, self.work = os.path.join(arguments.bin, "moe-token-ids"), arguments.work
        self.library = llama_cpp.Library()

    def ours(self, path, texts, *options):
        done = subprocess.run([self.tool, path, *options], input="".join(json.dumps(text) + "\n" for text in texts),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.split("\n")[:-1]]

    def differing(self, name, vocabularies, texts):
        """Returns the texts for which llama.cpp gives other ids."""
        found = {}
        for vocabulary in vocabularies:
            path = os.path.join(self.work, "vocabulary.gguf")
            vocabulary.write(path, name)
            with self.library.vocabulary(path) as judge:
                theirs = [judge.ids(text) for text in texts]
                bos = judge.adds_bos()
            assert self.ours(path, [], "--bos") == [bos], f"{name}: the token that starts a text is {bos} in llama.cpp"
            for text, a, b in zip(texts, self.ours(path, texts), theirs, strict=True):
                if a != b:
                    found.setdefault(text, (vocabulary, a, b))
        return found


def compare(arguments):
    table = names(arguments.source)
    chosen = arguments.names or list(table)
    texts = random_texts(arguments.strings)
    comparison = Comparison(arguments)
    made = {alphabet: [Vocabulary(alphabet, texts, seed) for seed in range(arguments.orders)]
            for alphabet in sorted(set(table.values()))}
    failed = 0
    for name in chosen:
        why, views = APPROXIMATED.get(name, ("", (str,)))
        strict = [view(text) for view in views for text in texts]
        wrong = comparison.differing(name, made[table[name]], strict)
        line = f"{name}: {len(strict)} strings, {len(wrong)} differ"
        if why:
            approximated = comparison.differing(name, made[table[name]], texts)
            line += f"; {len(approximated)} of {len(texts)} whole strings do, as in llama.cpp {why}"
        print(line, flush=True)
        for text in sorted(wrong, key=len)[:3]:
            _, ours, theirs = wrong[text]
            print(f"  {text!r}\n    ours      {ours}\n    llama.cpp {theirs}")
        failed += bool(wrong)
    print(f"{len(chosen)} pre-tokenizers, {failed} of them wrong")
    return failed


def golden(arguments):
    """Words of every pre-tokenizer, as byte counts, if llama.cpp's ids confirm them; names with equal rules share them."""
    table = names(arguments.source)
    texts = random_texts(5, seed=2)
    comparison = Comparison(arguments)
    made = {alphabet: [Vocabulary(alphabet, texts, seed) for seed in range(3)] for alphabet in sorted(set(table.values()))}
    by_words = collections.OrderedDict()
    for name, alphabet in table.items():
        wrong = comparison.differing(name, made[alphabet], texts)
        made[alphabet][0].write(os.path.join(arguments.work, "vocabulary.gguf"), name)
        pieces = comparison.ours(os.path.join(arguments.work, "vocabulary.gguf"), texts, "--pieces")
        # 0 means not confirmed.
        words = [0 if text in wrong else [len(piece.encode()) for piece in cut] for text, cut in zip(texts, pieces)]
        by_words.setdefault(json.dumps(words, separators=(",", ":")), []).append(name)
    with open(arguments.golden, "w") as file:
        file.write('{"texts": ' + json.dumps(texts) + ',\n"rules": [\n')
        file.write(",\n".join(f'{{"names": {json.dumps(same)}, "words": {words}}}' for words, same in by_words.items()))
        file.write("\n]}\n")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strings", type=int, default=100, help="of each script")
    parser.add_argument("--orders", type=int, default=1, help="of merges")
    parser.add_argument("--golden")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    sys.exit(min(1, golden(arguments) if arguments.golden else compare(arguments)))


if __name__ == "__main__":
    main()
