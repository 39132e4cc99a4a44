#!/usr/bin/env python3
"""Sizes and offsets of the public structs, and the numbers of the public enums.

  abi_layout.py --compiler cc --header runtime/sluice.h --expected tests/abi/layout.txt
compares what the compiler says with the checked-in table; --update writes the table instead. After
1.0 members are only appended and numbers never change: a changed line in the table breaks callers.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

STRUCT = re.compile(r"\btypedef\s+struct\s+(sluice_\w+)\s*\{(.*?)\}\s*\1\s*;", re.S)
ENUM = re.compile(r"\btypedef\s+enum\s+(sluice_\w+)\s*\{(.*?)\}\s*\1\s*;", re.S)
FUNCTION_MEMBER = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(")
LAST_NAME = re.compile(r"(\w+)\s*(?:\[[^]]*\]\s*)*$")


def members(body: str) -> list[str]:
    if "{" in body:
        raise SystemExit(f"abi_layout.py: nested structs are not read: {body[:200]}")
    names = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        function = FUNCTION_MEMBER.search(declaration)
        if function:
            names.append(function.group(1))
        else:
            names += [LAST_NAME.search(part.strip()).group(1) for part in declaration.split(",")]
    return names


def enumerators(body: str) -> list[str]:
    return [part.split("=")[0].strip() for part in body.split(",") if part.strip()]


def program(preprocessed: str, header: pathlib.Path) -> str:
    lines = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        f'#include "{header.resolve()}"',
        "int main(void) {",
    ]
    for name, body in STRUCT.findall(preprocessed):
        lines.append(f'  printf("struct {name} size %zu\\n", sizeof({name}));')
        lines += [
            f'  printf("struct {name} .{member} at %zu size %zu\\n", offsetof({name}, {member}),'
            f" sizeof((({name} *)0)->{member}));"
            for member in members(body)
        ]
    for name, body in ENUM.findall(preprocessed):
        lines.append(f'  printf("enum {name} size %zu\\n", sizeof({name}));')
        lines += [
            f'  printf("enum {name} {constant} = %lld\\n", (long long)({constant}));'
            for constant in enumerators(body)
        ]
    return "\n".join(lines + ["  return 0;", "}"]) + "\n"


def layout(compiler: str, header: pathlib.Path) -> str:
    preprocessed = subprocess.run(
        [compiler, "-std=c11", "-E", "-P", str(header)], check=True, capture_output=True, text=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
        source.write_text(program(preprocessed, header))
        subprocess.run([compiler, "-std=c11", "-o", str(binary), str(source)], check=True)
        return subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout


def self_test(compiler: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "h.h")
        header.write_text("""#include <stdint.h>
            #define LIST(X) X(one) X(two)
            #define MEMBER(n) uint64_t n;
            #define CONSTANT(n) SLUICE_##n,
            typedef enum sluice_e { SLUICE_A = 3, /* a, b */ LIST(CONSTANT) } sluice_e;
            typedef struct sluice_opaque sluice_opaque;
            typedef struct sluice_s { uint32_t size; char text[4], c; const char *path;
                int (*call)(void *user, int n); LIST(MEMBER) } sluice_s;\n""")
        lines = layout(compiler, header).splitlines()
    assert lines[0] == "struct sluice_s size 48", lines
    assert [line.split()[2] for line in lines[1:8]] == [
        ".size",
        ".text",
        ".c",
        ".path",
        ".call",
        ".one",
        ".two",
    ], lines
    assert lines[3] == "struct sluice_s .c at 8 size 1", lines
    assert lines[-2:] == ["enum sluice_e SLUICE_one = 4", "enum sluice_e SLUICE_two = 5"], lines
    print("abi_layout.py: self-test passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--header", type=pathlib.Path)
    parser.add_argument("--expected", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test(arguments.compiler)
        return 0
    if not arguments.header or not arguments.expected:
        parser.error("--header and --expected are needed")
    found = layout(arguments.compiler, arguments.header)
    if arguments.update:
        arguments.expected.write_text(found)
        return 0
    expected = arguments.expected.read_text() if arguments.expected.exists() else ""
    difference = list(
        difflib.unified_diff(
            expected.splitlines(),
            found.splitlines(),
            str(arguments.expected),
            str(arguments.header),
            lineterm="",
            n=1,
        )
    )
    if difference:
        print("\n".join(difference))
        print(
            "The layout of the public header changed. If that is meant, run:\n"
            f"  tools/build/abi_layout.py --header {arguments.header} "
            f"--expected {arguments.expected} --update"
        )
        return 1
    print(f"{len(found.splitlines())} lines of layout as expected")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"abi_layout.py: {error} {getattr(error, 'stderr', '') or ''}")
