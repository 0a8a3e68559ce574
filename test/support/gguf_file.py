"""Reads, changes and writes GGUF files for tests. Standard library only."""
import math
import struct

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}

# A tensor format's number, and the elements and bytes of a block.
FORMATS = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2), "F64": (28, 1, 8),
    "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4), "I64": (27, 1, 8),
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
    "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82), "IQ4_XS": (23, 256, 136),
    "IQ1_M": (29, 256, 56), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36),
}
NAMES = {number: name for name, (number, _, _) in FORMATS.items()}


class Tensor:
    def __init__(self, format_name, shape, data):
        """`shape` is innermost first, as in files."""
        self.format, self.shape, self.data = format_name, list(shape), bytearray(data)
        _, elements, size = FORMATS[format_name]
        expected = math.prod(self.shape) // elements * size
        assert self.shape[0] % elements == 0 and len(data) == expected, \
            f"{format_name} of shape {self.shape}: {len(data)} bytes, expected {expected}"


class GgufFile:
    """`keys`: name -> (kind, value), for an array (ARRAY, (kind, values)); `tensors`: name -> Tensor."""

    def __init__(self):
        self.keys, self.tensors = {}, {}

    def alignment(self):
        return self.keys.get("general.alignment", (UINT32, 32))[1]

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return _Reader(file.read()).file()

    def write(self, path):
        with open(path, "wb") as file:
            file.write(_Writer(self).bytes())


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return inner, [self.value(inner) for _ in range(count)]
        return self.number(SCALARS[kind])

    def file(self):
        result = GgufFile()
        assert self.data[:4] == b"GGUF", "no GGUF file"
        self.at = 8
        tensors, keys = self.number("Q"), self.number("Q")
        for _ in range(keys):
            name, kind = self.string(), self.number("I")
            result.keys[name] = kind, self.value(kind)
        found = []
        for _ in range(tensors):
            name = self.string()
            shape = [self.number("Q") for _ in range(self.number("I"))]
            found.append((name, NAMES[self.number("I")], shape, self.number("Q")))
        start = self.at + -self.at % result.alignment()
        for name, format_name, shape, offset in found:
            _, elements, size = FORMATS[format_name]
            begin = start + offset
            data = self.data[begin:begin + math.prod(shape) // elements * size]
            result.tensors[name] = Tensor(format_name, shape, data)
        return result


class _Writer:
    def __init__(self, file):
        self.file, self.parts = file, []

    def number(self, code, value):
        self.parts.append(struct.pack("<" + code, value))

    def string(self, text):
        data = text.encode()
        self.number("Q", len(data))
        self.parts.append(data)

    def value(self, kind, value):
        if kind == STRING:
            self.string(value)
        elif kind == ARRAY:
            inner, values = value
            self.number("I", inner)
            self.number("Q", len(values))
            for each in values:
                self.value(inner, each)
        else:
            self.number(SCALARS[kind], value)

    def bytes(self):
        alignment = self.file.alignment()
        self.parts = [b"GGUF", struct.pack("<IQQ", 3, len(self.file.tensors), len(self.file.keys))]
        for name, (kind, value) in self.file.keys.items():
            self.string(name)
            self.number("I", kind)
            self.value(kind, value)
        offset = 0
        for name, tensor in self.file.tensors.items():
            self.string(name)
            self.number("I", len(tensor.shape))
            for size in tensor.shape:
                self.number("Q", size)
            self.number("I", FORMATS[tensor.format][0])
            self.number("Q", offset)
            offset += len(tensor.data) + -len(tensor.data) % alignment
        header = sum(map(len, self.parts))
        self.parts.append(bytes(-header % alignment))
        for tensor in self.file.tensors.values():
            self.parts += tensor.data, bytes(-len(tensor.data) % alignment)
        return b"".join(self.parts)
