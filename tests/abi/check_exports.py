#!/usr/bin/env python3
"""What the shipped files show to the outside.

  check_exports.py --expected exports.txt --strip strip --shared libsluice.so --static libsluice.a
                   [--program sluice]
The stripped shared library exports the header's functions and nothing else, and so does the
archive; neither they nor the program need a library beyond libc, so none links to libcuda."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# libm and libpthread are libc; ld-linux is the loader.
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|ld-linux-[\w-]+)\.so\.\d+$")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shared_exports(library: pathlib.Path, strip: str) -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder, "stripped.so")
        output(strip, "-o", str(stripped), str(library))
        listed = output("nm", "-D", "--defined-only", str(stripped)).splitlines()
    # The version node itself is an absolute symbol. nm writes name@@NODE.
    return {line.split()[-1].split("@")[0] for line in listed if line.split()[-2] != "A"}


def archive_globals(archive: pathlib.Path) -> set[str]:
    lines = output("nm", "-g", "--defined-only", str(archive)).splitlines()
    return {line.split()[2] for line in lines if len(line.split()) == 3}


def archive_undefined(archive: pathlib.Path) -> set[str]:
    lines = output("nm", "-u", str(archive)).splitlines()
    return {line.split()[1] for line in lines if len(line.split()) == 2}


def needed(binary: pathlib.Path) -> set[str]:
    return set(
        re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", output("readelf", "-d", str(binary)))
    )


def complain(what: str, names: set[str]) -> int:
    if not names:
        return 0
    print(f"{what}: {', '.join(sorted(names)[:20])}{' ...' if len(names) > 20 else ''}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expected", required=True, type=pathlib.Path)
    parser.add_argument("--strip", default="strip")
    parser.add_argument("--shared", required=True, type=pathlib.Path)
    parser.add_argument("--static", required=True, type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path)
    arguments = parser.parse_args()
    expected = set(arguments.expected.read_text().split())
    wrong = 0 if expected else complain("the header declares", {"nothing"})
    for name, found in (
        ("the shared library", shared_exports(arguments.shared, arguments.strip)),
        ("the archive", archive_globals(arguments.static)),
    ):
        wrong += complain(f"{name} lacks functions of the header", expected - found)
        wrong += complain(f"{name} shows more than the header", found - expected)
    wrong += complain(
        "the archive wants functions that it should hold",
        {
            name
            for name in archive_undefined(arguments.static)
            if re.match(r"sluice_|mi_|io_uring_|_ZNK?6sluice|_ZN3fmt|cu[A-Z]", name)
        },
    )
    for binary in filter(None, (arguments.shared, arguments.program)):
        wrong += complain(
            f"{binary.name} needs libraries beyond libc",
            {lib for lib in needed(binary) if not SYSTEM_LIBRARIES.match(lib)},
        )
    if not wrong:
        print(f"{len(expected)} functions, exactly those of the header")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"check_exports.py: {error} {error.stderr}")
