#!/usr/bin/env python3
"""Lists the functions that a public header declares with SLUICE_API.

  exports.py [--node NAME] --map FILE --list FILE HEADER...
writes a version script for the linker and a plain list (one name a line, sorted) for objcopy and
the export test. Without --map and --list it prints the list. A file that would not change is not
touched.
"""

import argparse
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
DECLARATION = re.compile(r"\bSLUICE_API\b([^;{]*)")
NAME = re.compile(r"\b(sluice_\w+)\s*\(")


def declared_functions(text: str) -> list[str]:
    text = DIRECTIVE.sub("", COMMENT.sub(" ", text))
    names = []
    for match in DECLARATION.finditer(text):
        name = NAME.search(match.group(1))
        if not name:
            raise SystemExit(f"exports.py: no sluice_* function in: SLUICE_API{match.group(1)}")
        names.append(name.group(1))
    duplicates = sorted({n for n in names if names.count(n) > 1})
    if duplicates:
        raise SystemExit(f"exports.py: declared twice: {', '.join(duplicates)}")
    return sorted(names)


def version_script(node: str, names: list[str]) -> str:
    listed = "".join(f"    {name};\n" for name in names)
    return f"{node} {{\n" + (f"  global:\n{listed}" if names else "") + "  local:\n    *;\n};\n"


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def self_test() -> None:
    header = """
    #define SLUICE_API __attribute__((visibility("default")))
    #define OTHER(x) \\
        SLUICE_API int sluice_not_one(x)
    /* SLUICE_API int sluice_in_comment(void); */
    // SLUICE_API int sluice_in_line_comment(void);
    typedef int (*sluice_callback)(void *user);
    SLUICE_API sluice_status sluice_b(int (*callback)(void *), void *user);
    SLUICE_API const char *
    sluice_a(
        sluice_status status);
    static inline int sluice_inline(void) { return 0; }
    """
    assert declared_functions(header) == ["sluice_a", "sluice_b"], declared_functions(header)
    for bad in (
        "SLUICE_API int x;",
        "SLUICE_API int sluice_a(void); SLUICE_API int sluice_a(void);",
    ):
        try:
            declared_functions(bad)
        except SystemExit:
            continue
        raise AssertionError(f"accepted: {bad}")
    assert (
        version_script("N", ["sluice_a"]) == "N {\n  global:\n    sluice_a;\n  local:\n    *;\n};\n"
    )
    print("exports.py: self-test passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", default="SLUICE_0.1")
    parser.add_argument("--map", type=pathlib.Path)
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("header", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    names = sorted(n for header in arguments.header for n in declared_functions(header.read_text()))
    if arguments.map:
        write_if_changed(arguments.map, version_script(arguments.node, names))
    if arguments.list:
        write_if_changed(arguments.list, "".join(f"{name}\n" for name in names))
    if not arguments.map and not arguments.list:
        sys.stdout.write("".join(f"{name}\n" for name in names))


if __name__ == "__main__":
    main()
