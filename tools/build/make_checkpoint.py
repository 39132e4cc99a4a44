#!/usr/bin/env python3
"""Makes a valid safetensors checkpoint of reproducible random bytes; needs nothing but Python 3.

  make_checkpoint.py model.safetensors --shape minilm      the tensors of all-MiniLM-L6-v2 (87 MiB)
  make_checkpoint.py m.safetensors --tensors 1000 --bytes 4GiB --odd --seed 7
  make_checkpoint.py folder --tensors 300 --bytes 1GiB --shards 3   (writes an index as well)

--odd gives sizes of any byte count (types of one byte), so that offsets are odd too; otherwise the
tensors are BF16. The same arguments always give the same bytes; no two places hold the same data.
An output that is complete already is left alone (--force makes it again)."""

import argparse
import json
import os
import pathlib
import random
import re
import sys

CHUNK_BYTES = 4 << 20
TYPE_BYTES = {"F32": 4, "BF16": 2, "I64": 8, "U8": 1, "I8": 1}


def parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([KMGT]i?B?|B|)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"not a size: {text} (use 512MiB, 4GiB, 1000)")
    unit = match.group(2)
    power = "KMGT".find(unit[:1]) + 1 if unit and unit != "B" else 0
    return int(match.group(1)) * (1024 if "i" in unit or len(unit) == 1 else 1000) ** power


def minilm_tensors() -> list[tuple[str, str, list[int]]]:
    hidden, inner = 384, 1536
    tensors = [
        ("embeddings.position_ids", "I64", [1, 512]),
        ("embeddings.LayerNorm.bias", "F32", [hidden]),
        ("embeddings.LayerNorm.weight", "F32", [hidden]),
        ("embeddings.position_embeddings.weight", "F32", [512, hidden]),
        ("embeddings.token_type_embeddings.weight", "F32", [2, hidden]),
        ("embeddings.word_embeddings.weight", "F32", [30522, hidden]),
    ]
    parts = [
        ("attention.output.LayerNorm.bias", [hidden]),
        ("attention.output.LayerNorm.weight", [hidden]),
    ]
    for name, shape in (
        ("attention.output.dense", [hidden, hidden]),
        ("attention.self.key", [hidden, hidden]),
        ("attention.self.query", [hidden, hidden]),
        ("attention.self.value", [hidden, hidden]),
        ("intermediate.dense", [inner, hidden]),
    ):
        parts += [(f"{name}.bias", [shape[0]]), (f"{name}.weight", shape)]
    parts += [
        ("output.LayerNorm.bias", [hidden]),
        ("output.LayerNorm.weight", [hidden]),
        ("output.dense.bias", [hidden]),
        ("output.dense.weight", [hidden, inner]),
    ]
    for layer in range(6):
        tensors += [(f"encoder.layer.{layer}.{name}", "F32", shape) for name, shape in parts]
    return tensors + [
        ("pooler.dense.bias", "F32", [hidden]),
        ("pooler.dense.weight", "F32", [hidden, hidden]),
    ]


def random_tensors(
    count: int, total: int, odd: bool, seed: int
) -> list[tuple[str, str, list[int]]]:
    """Sizes spread over two decades that add up to total (without odd: to the next even number)."""
    rng = random.Random(seed)
    weights = [10 ** rng.uniform(0, 2) for _ in range(count)]
    scale = total / sum(weights)
    sizes = [max(1 if odd else 2, int(weight * scale)) for weight in weights]
    sizes = [size | 1 for size in sizes] if odd else [size + size % 2 for size in sizes]
    sizes[-1] = max(2, sizes[-1] + total - sum(sizes))
    if not odd:
        sizes[-1] += sizes[-1] % 2
    tensors = []
    for index, size in enumerate(sizes):
        name = f"model.layers.{index // 10}.part_{index % 10}.weight"
        if odd:
            tensors.append((name, rng.choice(("U8", "I8")), [size]))
        else:
            rows = next(rows for rows in (64, 32, 16, 8, 4, 2, 1) if (size // 2) % rows == 0)
            tensors.append((name, "BF16", [rows, size // 2 // rows]))
    return tensors


def byte_count(tensor: tuple[str, str, list[int]]) -> int:
    size = TYPE_BYTES[tensor[1]]
    for extent in tensor[2]:
        size *= extent
    return size


def header_of(tensors: list[tuple[str, str, list[int]]], pad: int) -> tuple[bytes, int]:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        end = offset + byte_count(tensor)
        header[tensor[0]] = {"dtype": tensor[1], "shape": tensor[2], "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + pad)
    return len(text).to_bytes(8, "little") + text, offset


def write_file(path: pathlib.Path, tensors, pad: int, seed: str, force: bool) -> int:
    header, data_bytes = header_of(tensors, pad)
    total = len(header) + data_bytes
    if not force and path.exists() and path.stat().st_size == total:
        with path.open("rb") as existing:
            if existing.read(len(header)) == header:
                return total
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        out.write(header)
        for start in range(0, data_bytes, CHUNK_BYTES):
            length = min(CHUNK_BYTES, data_bytes - start)
            out.write(random.Random(f"{seed}:{start}").randbytes(length))
    os.replace(partial, path)
    return total


def shards_of(tensors, count: int) -> list[list]:
    """Consecutive tensors, about the same number of bytes each; every shard gets at least one."""
    total, done, shards = sum(map(byte_count, tensors)), 0, [[] for _ in range(count)]
    for index, tensor in enumerate(tensors):
        shard = min(done * count // max(total, 1), count - 1)
        shard = max(shard, count - (len(tensors) - index))
        shards[shard].append(tensor)
        done += byte_count(tensor)
    return shards


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=pathlib.Path, help="a file; a folder with --shards")
    parser.add_argument("--shape", choices=["minilm"], help="a known model's tensors")
    parser.add_argument("--tensors", type=int, default=8)
    parser.add_argument(
        "--bytes", type=parse_size, default=64 << 20, help="of all tensors together"
    )
    parser.add_argument("--odd", action="store_true", help="odd sizes and offsets")
    parser.add_argument(
        "--header-pad", type=int, default=0, help="further spaces: shifts where data starts"
    )
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()

    if arguments.shape:
        tensors = minilm_tensors()
    else:
        if arguments.tensors < 1 or arguments.shards > arguments.tensors:
            parser.error("--tensors must be at least 1 and at least --shards")
        tensors = random_tensors(arguments.tensors, arguments.bytes, arguments.odd, arguments.seed)
    if not arguments.shards:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        write_file(
            arguments.output, tensors, arguments.header_pad, str(arguments.seed), arguments.force
        )
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    weight_map, total = {}, 0
    for number, shard in enumerate(shards_of(tensors, arguments.shards), 1):
        name = f"model-{number:05}-of-{arguments.shards:05}.safetensors"
        write_file(
            arguments.output / name,
            shard,
            arguments.header_pad,
            f"{arguments.seed}/{number}",
            arguments.force,
        )
        weight_map.update({tensor[0]: name for tensor in shard})
        total += sum(map(byte_count, shard))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (arguments.output / "model.safetensors.index.json").write_text(
        json.dumps(index, indent=1) + "\n"
    )


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make_checkpoint.py: {error}")
