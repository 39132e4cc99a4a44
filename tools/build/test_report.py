#!/usr/bin/env python3
"""Reads what ctest wrote (--output-junit) and says what happened, in one place for every part.

  test_report.py --allowed tests/allowed_skips.txt --part NAME JUNIT_FILE
prints failures and skips and, as its last line, "PASSED FAILED SKIPPED" as numbers. A skip whose
name and reason are not in the list of allowed ones counts as a failure, so does a run without any
test.
"""

import argparse
import fnmatch
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree as xml

REASON = re.compile(r"^.*?\bskip: *(.+?)\s*$", re.M)


def allowed_skips(path: pathlib.Path) -> list[tuple[str, str]]:
    rules = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(":")
            rules.append((name.strip(), reason.strip()))
    return rules


def report(junit: pathlib.Path, rules: list[tuple[str, str]], part: str) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    cases = xml.parse(junit).getroot().findall("testcase") if junit.exists() else []
    for case in cases:
        name, output = case.get("name"), case.findtext("system-out") or ""
        if case.find("failure") is not None or case.get("status") == "fail":
            failed += 1
            why = (
                case.find("failure").get("message", "") if case.find("failure") is not None else ""
            )
            print(f"[{part}] FAILED {name} {why}".rstrip())
            print("\n".join(f"    {line}" for line in output.strip().splitlines()[-40:]))
        elif case.find("skipped") is not None:
            found = REASON.search(output)
            reason = found.group(1) if found else "no reason given"
            if any(fnmatch.fnmatch(name, n) and fnmatch.fnmatch(reason, r) for n, r in rules):
                skipped += 1
                print(f"[{part}] skipped {name}: {reason}")
            else:
                failed += 1
                print(f"[{part}] FAILED {name}: skipped without leave: {reason}")
        elif case.get("status") == "run":
            passed += 1
        else:
            failed += 1
            print(f"[{part}] FAILED {name}: not run ({case.get('status')})")
    if not cases:
        failed += 1
        print(f"[{part}] FAILED: no test ran")
    return passed, failed, skipped


def self_test() -> None:
    text = """<testsuite>
      <testcase name="good" status="run"><system-out>fine</system-out></testcase>
      <testcase name="bad" status="fail"><failure message="Failed"/>
        <system-out>boom</system-out></testcase>
      <testcase name="gpu_x" status="notrun"><skipped/>
        <system-out>[a] skip: no GPU here</system-out></testcase>
      <testcase name="other" status="notrun"><skipped/>
        <system-out>skip: no GPU here</system-out></testcase>
      <testcase name="mute" status="notrun"><skipped/><system-out/></testcase>
      <testcase name="off" status="disabled"><system-out/></testcase>
    </testsuite>"""
    with tempfile.TemporaryDirectory() as folder:
        junit = pathlib.Path(folder) / "junit.xml"
        junit.write_text(text)
        assert report(junit, [("gpu_*", "no GPU*")], "t") == (1, 4, 1)
        assert report(junit.with_name("absent.xml"), [], "t") == (0, 1, 0)
    print("test_report.py: self-test passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allowed", type=pathlib.Path)
    parser.add_argument("--part", default="tests")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("junit", nargs="?", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    if not arguments.allowed or not arguments.junit:
        parser.error("--allowed and the JUnit file are needed")
    print(*report(arguments.junit, allowed_skips(arguments.allowed), arguments.part))


if __name__ == "__main__":
    try:
        main()
    except (OSError, xml.ParseError) as error:
        sys.exit(f"test_report.py: {error}")
