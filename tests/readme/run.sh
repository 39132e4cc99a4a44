# The first C program in the README: taken out, compiled as strict C11, and run on a checkpoint that
# `sluice generate` made. What it prints must agree with the file.
#   run.sh README BUILD_FOLDER C_COMPILER
set -euo pipefail
readme=$1 build=$2 compiler=$3
tensors=20

misuse=${SLUICE_EMULATED_MISUSE:-abort}
unset "${!SLUICE_@}"  # the machine's own settings don't count
export SLUICE_EMULATED_MISUSE=$misuse

work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-readme-XXXXXX")
trap 'rm -rf "$work"' EXIT
die() {
  printf 'FAILED: %s\n' "$*"
  head -n 30 "$work/out" "$work/err" 2>/dev/null || true
  exit 1
}

awk '/^```c$/ { inside = 1; next } /^```/ && inside { exit } inside' "$readme" >"$work/first.c"
[[ -s $work/first.c ]] || die "$readme has no C program"
"$compiler" -std=c11 -Wall -Wextra -Werror -pedantic "$work/first.c" -o "$work/first" \
  -I"$build/generated/include" -L"$build" -lsluice -Wl,-rpath,"$build" ||
  die "the program doesn't compile"

model=$work/model.safetensors
"$build/sluice" generate "$model" --size 8MiB --tensors "$tensors" >/dev/null
"$work/first" --driver emulated "$model" >"$work/out" 2>"$work/err" || die "exit status $?"
[[ ! -s $work/err ]] || die "it wrote to stderr"

# A line for each tensor, with an address that no other has; then the last one's size and first
# byte, which stands where the file's last tensor begins.
pattern='^0x[0-9a-f]+ BF16 [^ ]+$'
[[ $(grep -cE "$pattern" "$work/out") == "$tensors" ]] || die "not $tensors lines of tensors"
[[ $(grep -E "$pattern" "$work/out" | cut -d' ' -f1 | sort -u | wc -l) == "$tensors" ]] ||
  die "an address occurs twice"
[[ $(wc -l <"$work/out") == $((tensors + 1)) ]] || die "not $((tensors + 1)) lines"
last=$(tail -n 1 "$work/out")
[[ $last =~ ^([^ ]+):\ ([0-9]+)\ bytes,\ the\ first\ is\ ([0-9]+)$ ]] || die "the last line: $last"
name=${BASH_REMATCH[1]} bytes=${BASH_REMATCH[2]} first=${BASH_REMATCH[3]}
[[ $(tail -n 2 "$work/out" | head -n 1) == *" $name" ]] || die "$name isn't the last tensor"
expected=$(tail -c "$bytes" "$model" | od -An -tu1 -N1 | tr -d ' ') || true
[[ $first == "$expected" ]] || die "the first byte of $name is $expected, not $first"

# Errors: a usage line without a checkpoint, a status and a sentence for one that isn't there.
status=0
"$work/first" --driver emulated >"$work/out" 2>"$work/err" || status=$?
[[ $status == 2 && $(<"$work/err") == usage:* ]] || die "no usage line; exit status $status"
status=0
"$work/first" --driver emulated "$work/absent" >"$work/out" 2>"$work/err" || status=$?
[[ $status == 1 && $(<"$work/err") == NOT_FOUND:*absent* ]] || die "exit status $status, not 1"
echo "readme: ok"
