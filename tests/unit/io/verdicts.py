#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the safetensors library says to odd headers, for test_safetensors.cpp.

    python3 -m venv v && v/bin/pip install safetensors numpy
    v/bin/python tests/unit/io/verdicts.py > tests/unit/io/verdicts.json

A case is a whole file. `differs` marks those where sluice has another verdict, as the comment in
io/safetensors.h explains.
"""
import json
import struct

import safetensors

cases = []


def case(label, header, data=4, length=None, differs=""):
    header = header.encode() if isinstance(header, str) else header
    data = bytes(1 + i % 250 for i in range(data))
    prefix = struct.pack("<Q", len(header) if length is None else length)
    raw(label, prefix + header + data, differs)


def raw(label, content, differs=""):
    try:
        tensors = safetensors.deserialize(content)
    except safetensors.SafetensorError:
        verdict = {"accepts": False}
    else:
        verdict = {"accepts": True, "tensors": sorted(
            ({"name": name, "dtype": t["dtype"], "shape": t["shape"],
              "data": bytes(t["data"]).hex()}
             for name, t in tensors), key=lambda t: t["name"])}
    cases.append({"label": label, "file": content.hex(), "library": verdict, "differs": differs})


def body(dtype='"F32"', shape="[1]", offsets="[0,4]", extra=""):
    return '{"dtype":%s,"shape":%s,"data_offsets":%s%s}' % (dtype, shape, offsets, extra)


PLAIN = '"a":' + body()


def one(name="a", **parts):
    return '{"%s":%s}' % (name, body(**parts))


def two(a, b):
    return '{"a":%s,"b":%s}' % tuple(
        body('"U8"', "[%d]" % max(end - begin, 0), "[%d,%d]" % (begin, end))
        for begin, end in (a, b))


def layout():
    case("plain", "{" + PLAIN + "}")
    case("no tensors", "{}", 0)
    case("leading space", " {" + PLAIN + "}", differs="the format demands '{' first")
    case("leading newline", "\n{" + PLAIN + "}", differs="the format demands '{' first")
    case("byte order mark", "\ufeff{" + PLAIN + "}")
    for rest in ["   ", "\n\t\r ", "\0", "\0\0", "x", "{}", ",", "\x0b", "\xa0", " \0"]:
        case("behind it %r" % rest, "{" + PLAIN + "}" + rest)
    case("bad UTF-8 behind it", b"{" + PLAIN.encode() + b"}\xff")
    case("array on top", "[" + PLAIN[4:] + "]")
    case("number on top", "7")
    case("nothing", "", 0)
    case("length past the end", "{}", 0, length=3)
    case("length 2^63", "{}", 0, length=2**63)
    case("length 2^64-1", "{}", 0, length=2**64 - 1)
    case("length 100,000,001", "{}", 0, length=100_000_001)
    case("length cuts the JSON", "{" + PLAIN + "}", length=20)
    for size in (0, 1, 7, 8):
        raw("%d zero bytes" % size, bytes(size))
    case("comment", "{/*x*/" + PLAIN + "}")
    case("trailing comma", "{" + PLAIN + ",}")
    case("single quotes", "{'a':1}")
    case("unterminated", "{" + PLAIN)
    case("white space everywhere", " \n".join(
        '{ "a" : { "dtype" : "F32" , "shape" : [ 1 ] , "data_offsets" : [ 0 , 4 ] } }'.split()))


def keys():
    twice = "readers disagree about which one counts"
    case("tensor twice", "{" + PLAIN + "," + PLAIN + "}", differs=twice)
    case("tensor twice, escaped", "{" + PLAIN + "," + PLAIN.replace('"a"', '"\\u0061"') + "}",
         differs=twice)
    for key in ('"dtype":"F32"', '"shape":[1]', '"data_offsets":[0,4]'):
        case("twice " + key, one(extra="," + key))
    case("unknown key", one(extra=',"x":1'))
    case("unknown key, nested", one(extra=',"x":{"y":[1,{"y":2,"y":3}]}'))
    case("unknown key twice", one(extra=',"x":1,"x":2'), differs=twice)
    case("tensor as array", '{"a":["F32",[1],[0,4]]}', differs="not in the format")
    case("dtype as object", one(dtype='{"F32":null}'), differs="not in the format")
    for value in ["null", "1", "{}", "[]", '"F32"', "true"]:
        case("tensor is " + value, '{"a":%s}' % value, 0)
    case("no dtype", '{"a":{"shape":[1],"data_offsets":[0,4]}}')
    case("no shape", '{"a":{"dtype":"F32","data_offsets":[0,4]}}')
    case("no offsets", '{"a":{"dtype":"F32","shape":[1]}}')
    for depth in (1, 100, 125, 126, 127, 200):
        case("depth %d" % depth, one(extra=',"x":' + "[" * depth + "]" * depth))
    values = ["1e400", "-1", "1.5", "18446744073709551616", "-0", '"\\ud800"', '"\\ud83d\\ude00"',
              "01", "1.", ".5", "+1", "NaN", "tru", '"\x01"', '"\x7f"', "1E+5", "-", '"\\q"',
              '"\\/"', "1e-9999", '"\\u0000"', '"\\uDC00"', "0e400", "2e308", "-1e400",
              "Infinity", "[1,]"]
    for value in values:
        case("unknown key %r" % value, one(extra=',"x":' + value))


def metadata():
    for value in ["null", "{}", '{"a":"b"}', '{"a":1}', '{"a":null}', "[]", '"x"',
                  '{"a":{"b":"c"}}', '{"":""}', '[["a","b"]]', '{"a":["b"]}', "1", "true"]:
        case("metadata " + value, '{"__metadata__":%s,%s}' % (value, PLAIN))
    case("metadata with NUL", '{"__metadata__":{"k":"\\u0000"},%s}' % PLAIN, differs="C strings")
    case("metadata key with NUL", '{"__metadata__":{"\\u0000":""},%s}' % PLAIN, differs="C strings")
    case("metadata key twice", '{"__metadata__":{"a":"b","a":"c"},%s}' % PLAIN,
         differs="readers disagree about which one counts")
    case("metadata twice", '{"__metadata__":{},"__metadata__":{},%s}' % PLAIN)
    case("metadata null twice", '{"__metadata__":null,"__metadata__":null,%s}' % PLAIN)
    case("metadata escaped", '{"\\u005f_metadata__":{"a":"b"},%s}' % PLAIN)
    case("metadata is a tensor", '{"__metadata__":%s,%s}' % (body(), PLAIN))
    case("metadata behind", '{%s,"__metadata__":{"a":"b"}}' % PLAIN)


def names():
    for name in ["", "\\u0001", "\\n", "\u00e9", "\\ud83d\\ude00", "\\ud800", "a/b", "..", "\x7f",
                 "a\tb"]:
        case("name %r" % name, one(name))
    case("name NUL", one("\\u0000"), differs="C strings")
    case("name with NUL", one("x\\u0000y"), differs="C strings")
    for name in [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82"]:
        case("name %r" % name, one("?").encode().replace(b"?", name))


def types():
    bits = dict(BOOL=8, U8=8, I8=8, U16=16, I16=16, U32=32, I32=32, U64=64, I64=64, F16=16,
                BF16=16, F32=32, F64=64, F8_E4M3=8, F8_E5M2=8, F8_E8M0=8, F4=4, F6_E2M3=6,
                F6_E3M2=6, C64=64,
                F8_E4M3FNUZ=8, F8_E5M2FNUZ=8, C128=128, U4=4, I4=4, F8_E4M3FN=8, f32=32, F32_=32)
    for name, width in bits.items():
        case("dtype " + name, one(dtype='"%s"' % name, shape="[8]", offsets="[0,%d]" % width),
             width)
    for name in ("F4", "F6_E2M3", "F6_E3M2"):
        for count in range(6):
            size = count * bits[name] // 8
            case("%s x %d" % (name, count),
                 one(dtype='"%s"' % name, shape="[%d]" % count, offsets="[0,%d]" % size), size)
    for dtype in ["11", "0", "null", "[]", '""', '["F32"]']:
        case("dtype " + dtype, one(dtype=dtype))


def shapes():
    top = 2**63
    for shape in ["[]", "[1,1]", "[-1]", '["1"]', "[1.0]", "null", "1", "[[1]]", "[true]", "[-0]",
                  "[2]", "[18446744073709551615]", "[18446744073709551616]",
                  "[4294967296,4294967296]",
                  "[%d,4,0]" % top, "[0,%d,4]" % top, "[%d]" % top, "{}", '"1"', "[1e0]", "[1,]"]:
        case("shape " + shape, one(shape=shape))
    for shape in ["[0]", "[0,%d,4]" % top, "[%d,4,0]" % top, "[%d,0]" % top, "[2,0,3]"]:
        case("empty, shape " + shape, one(shape=shape, offsets="[0,0]"), 0)
    for count in (64, 65, 1000):
        case("%d dimensions" % count, one(shape="[" + ",".join("1" * count) + "]"),
             differs="" if count <= 64 else "a bound of sluice's")


def offsets():
    for value in ["[0]", "[0,4,4]", "[]", '[0,"4"]', '["0","4"]', "[0,4.0]", "[0.0,4]", "[-0,4]",
                  "[0,-4]", "[4,0]", "[0,4e0]", "null", "[null,4]", "[0,18446744073709551616]",
                  "[1,5]", "[0,8]", "[0,3]", "[0,5]", "[18446744073709551612,18446744073709551615]",
                  '{"0":0,"1":4}', "[[0,4]]", "4", "[0,[4]]", "[4,8]"]:
        case("offsets " + value, one(offsets=value))
    for a, b, size in [((0, 4), (4, 8), 8), ((4, 8), (0, 4), 8), ((0, 4), (3, 8), 8),
                       ((0, 4), (5, 8), 8), ((0, 4), (4, 8), 9), ((0, 4), (4, 8), 7),
                       ((0, 4), (0, 4), 4), ((0, 4), (0, 4), 8), ((0, 4), (4, 4), 4),
                       ((0, 4), (2, 2), 4), ((0, 0), (0, 4), 4), ((0, 4), (0, 0), 4),
                       ((0, 4), (5, 5), 5), ((0, 4), (1, 3), 4), ((0, 0), (0, 0), 0),
                       ((0, 8), (0, 4), 8), ((0, 4), (4, 8), 0), ((0, 4), (8, 4), 8)]:
        case("two %s %s of %d" % (a, b, size), two(a, b), size)


for group in (layout, keys, metadata, names, types, shapes, offsets):
    group()
print('{"library": "safetensors %s", "cases": [' % safetensors.__version__)
print(",\n".join(json.dumps(c) for c in cases))
print("]}")
