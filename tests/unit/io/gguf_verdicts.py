#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the corpus of GGUF files with the gguf package, and records what its reader says of them.

    python3 -m venv v && v/bin/pip install gguf
    v/bin/python tests/unit/io/gguf_verdicts.py tests/fuzz/corpus/gguf > \
        tests/unit/io/gguf_verdicts.json

The package wrote what is good; the rest is changed or packed by hand. Its reader checks little:
`differs` marks the files that it takes and sluice refuses, as the comment in io/gguf.h explains.
"""
import importlib.metadata
import json
import os
import pathlib
import struct
import sys

import numpy
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES

PLAIN = dict(F32="float32", F16="float16", F64="float64", I8="int8", I16="int16", I32="int32",
             I64="int64")
SPLIT = ("split.no", "split.count", "split.tensors.count")
DIFFERS = {
    "overlap.gguf": "tensors overlap",
    "misaligned.gguf": "an offset that isn't aligned",
    "nested_9.gguf": "a bound of sluice's",
}

# ---- Files by the package


def write(name, fill, **options):
    writer = GGUFWriter(name, "llama", **options)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def types(*names):
    def fill(writer):
        for name in names:
            kind = GGMLQuantizationType[name]
            if name in PLAIN:
                writer.add_tensor("blk.0." + name,
                                  numpy.arange(6).reshape(2, 3).astype(PLAIN[name]))
            else:
                block = GGML_QUANT_SIZES[kind][1]
                data = numpy.arange(2 * block).astype("uint8").reshape(2, block)
                writer.add_tensor("blk.0." + name, data, raw_dtype=kind)
    return fill


def metadata(writer):
    writer.add_block_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_name("na\u00efve")
    writer.add_token_list(["a", "b", "\u00e9"])
    writer.add_token_scores([0.5, 1.0, -1.0])
    writer.add_array("x.bools", [True, False])
    for kind, value in (("UINT8", 200), ("INT8", -5), ("UINT16", 65535), ("INT16", -32768),
                        ("UINT32", 2**32 - 1), ("INT32", -7), ("FLOAT32", 0.1), ("BOOL", True),
                        ("STRING", "text"), ("UINT64", 2**64 - 1), ("INT64", -2**63),
                        ("FLOAT64", 0.1)):
        writer.add_key_value("x." + kind.lower(), value, GGUFValueType[kind])


def metadata_and_tensors(writer):
    metadata(writer)
    writer.add_tensor("a", numpy.zeros((2, 2), "float32"))
    writer.add_tensor("b", numpy.zeros((1,), "float32"))


def aligned(alignment):
    def fill(writer):
        writer.add_custom_alignment(alignment)
        writer.add_tensor("a", numpy.zeros((3,), "float32"))
        writer.add_tensor("b", numpy.zeros((3,), "float16"))
    return fill


def four_tensors(writer):
    for i in range(4):
        writer.add_tensor("t%d" % i, numpy.zeros((4,), "float32"))


def by_package():
    write("plain_types.gguf", types(*PLAIN, "BF16"))
    write("old_quants.gguf", types("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"))
    write("k_quants.gguf", types("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"))
    write("iq_quants.gguf", types("IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
                                  "IQ2_S", "IQ4_XS", "IQ1_M"))
    write("new_quants.gguf", types("TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0"))
    write("metadata.gguf", metadata)
    write("metadata_and_tensors.gguf", metadata_and_tensors)
    for alignment in (8, 64, 256):
        write("aligned_%d.gguf" % alignment, aligned(alignment))
    write("big_endian.gguf", metadata_and_tensors, endianess=GGUFEndian.BIG)
    write("split.gguf", four_tensors, split_max_tensors=2)


# ---- Files by hand


def save(name, content):
    pathlib.Path(name).write_bytes(content)


def changed():
    good = pathlib.Path("metadata_and_tensors.gguf").read_bytes()
    save("version1.gguf", good[:4] + struct.pack("<I", 1) + good[8:])
    save("version2.gguf", good[:4] + struct.pack("<I", 2) + good[8:])
    save("cut_header.gguf", good[:300])
    save("cut_data.gguf", good[:-40])
    save("empty.gguf", b"")
    save("magic_only.gguf", b"GGUF")
    save("huge_tensor_count.gguf", good[:8] + b"\xff" * 8 + good[16:])
    save("huge_key_count.gguf", good[:16] + b"\xff" * 8 + good[24:])


def key(name, kind, value):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def tensor(name, elements, kind, offset):
    return (struct.pack("<Q", len(name)) + name + struct.pack("<I", len(elements)) +
            b"".join(struct.pack("<Q", n) for n in elements) + struct.pack("<IQ", kind, offset))


def pack(name, keys=(), tensors=(), data=b""):
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    header += b"".join(keys) + b"".join(tensors)
    save(name, header + (b"\0" * (-len(header) % 32) + data if data else b""))


def by_hand():
    nested = struct.pack("<IQ", 0, 1) + b"x"
    for depth in range(1, 10):
        if depth in (1, 8, 9):
            pack("nested_%d.gguf" % depth, [key(b"k", 9, nested)])
        nested = struct.pack("<IQ", 9, 1) + nested
    f32, q4_0, uint8, uint16, int32 = 0, 2, 0, 2, 5
    pack("overlap.gguf", [], [tensor(b"a", [9], f32, 0), tensor(b"b", [9], f32, 32)], b"x" * 96)
    pack("hole.gguf", [], [tensor(b"a", [8], f32, 0), tensor(b"b", [8], f32, 96)], b"x" * 128)
    pack("misaligned.gguf", [], [tensor(b"a", [8], f32, 8)], b"x" * 128)
    pack("twice.gguf", [], [tensor(b"a", [8], f32, 0), tensor(b"a", [8], f32, 32)], b"x" * 64)
    pack("key_twice.gguf", [key(b"k", uint8, b"x"), key(b"k", uint8, b"y")])
    pack("overflow.gguf", [], [tensor(b"a", [2**62, 4], f32, 0)], b"x" * 64)
    pack("partial_block.gguf", [], [tensor(b"a", [33], q4_0, 0)], b"x" * 64)
    pack("merged.gguf", [key(b"split.no", uint16, b"\0\0"), key(b"split.count", uint16, b"\0\0"),
                         key(b"split.tensors.count", int32, b"\3\0\0\0")])


# ---- What the reader says


def value_of(field):
    if field.types[0] != GGUFValueType.ARRAY:
        return field.contents()
    if field.types[1] == GGUFValueType.ARRAY:
        return "[array x 1]"  # the reader flattens what is nested
    return "[%s x %d]" % (field.types[1].name.lower(), len(field.data))


def verdict(name):
    try:
        reader = GGUFReader(name)
        tensors = [{"name": t.name, "type": t.tensor_type.name, "offset": int(t.data_offset),
                    "shape": [int(n) for n in reversed(t.shape.tolist())],
                    "bytes": int(t.n_bytes)} for t in reader.tensors]
        keys = {name: value_of(field) for name, field in reader.fields.items()
                if not name.startswith("GGUF.") and name not in SPLIT}
    except Exception:
        return {"accepts": False}
    if reader.endianess == GGUFEndian.BIG:
        return {"accepts": False}
    return {"accepts": True, "tensors": tensors, "keys": keys}


os.chdir(sys.argv[1])
for group in (by_package, changed, by_hand):
    group()
print('{"library": "gguf %s", "cases": [' % importlib.metadata.version("gguf"))
print(",\n".join(json.dumps({"file": name, "library": verdict(name),
                             "differs": DIFFERS.get(name, "")})
                 for name in sorted(os.listdir("."))))
print("]}")
