# Sourced by each test of the program. `run ARGUMENT...` runs it and keeps its exit status and what
# it wrote; the expectations after it judge that run, count failures and go on; the file ends with
# `finish`. From ctest: PROGRAM, JSON, DAMAGING_DRIVER, FAILING_COPY, REFUSE_CALLS, and the SYSTEM
# that the program is for.
set -u
: "${SYSTEM:=Linux}"
: "${PROGRAM:?the path of sluice}" "${JSON:?the path of program_json}"
# The machine's own settings don't count.
unset "${!SLUICE_@}" 2>/dev/null || true
export SLUICE_EMULATED_MISUSE=abort

work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-program-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
checks=0
ran=

run() {
  ran="sluice $*"
  "$PROGRAM" "$@" >"$work/out" 2>"$work/err"
  status=$?
}

fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n  %s\n' "$ran" "$*"
  sed 's/^/  out: /' "$work/out" | head -n 5
  sed 's/^/  err: /' "$work/err" | head -n 5
}

expect_exit() {
  checks=$((checks + 1))
  [[ $status == "$1" ]] || fail "exit status $status, not $1"
}

# Some line on stderr begins with "sluice: " and holds each of the texts.
expect_error() {
  local text line
  checks=$((checks + 1))
  line=$(grep '^sluice: ' "$work/err") || { fail 'no error on stderr'; return; }
  for text in "$@"; do
    [[ $line == *"$text"* ]] || fail "the error doesn't name '$text'"
  done
}

expect_out() {
  local text
  checks=$((checks + 1))
  for text in "$@"; do
    grep -qF -- "$text" "$work/out" || fail "stdout lacks '$text'"
  done
}

expect_silent_out() {
  checks=$((checks + 1))
  [[ ! -s $work/out ]] || fail 'stdout is not empty'
}

# stdout is exactly one JSON object that has all these keys.
expect_keys() {
  checks=$((checks + 1))
  "$JSON" has "$@" <"$work/out" >"$work/keys" 2>&1 || fail "$(<"$work/keys")"
}

# expect_json KEY VALUE: stdout is one JSON object with that value.
expect_json() {
  local value
  checks=$((checks + 1))
  value=$("$JSON" get "$1" <"$work/out" 2>&1)
  [[ $value == "$2" ]] || fail "$1 is '$value', not '$2'"
}

# What `load --json` says of how it has read holds each of the texts.
expect_reason() {
  local text reason
  checks=$((checks + 1))
  reason=$("$JSON" get io.reason <"$work/out" 2>&1)
  for text in "$@"; do
    [[ $reason == *"$text"* ]] || fail "the reason lacks '$text': $reason"
  done
}

# A failure with exit status 1: named on stderr, and as JSON when that is asked for.
# expect_failure STATUS TEXT... after `run ... --json`.
expect_failure() {
  local name=$1
  shift
  expect_exit 1
  expect_error "$@"
  expect_keys error.status error.message error.call error.code
  expect_json error.status "$name"
}

# header_file FILE HEADER DATA_BYTES [LENGTH]: a safetensors file; LENGTH is what its first eight
# bytes say, the header's own by default.
header_file() {
  local length=${4:-${#2}} i
  {
    for i in 0 8 16 24 32 40 48 56; do
      printf '%b' "\\x$(printf %02x $((length >> i & 255)))"
    done
    printf %s "$2"
    head -c "$3" /dev/zero
  } >"$1"
}

finish() {
  printf '%d checks, %d failures\n' "$checks" "$failures"
  ((checks > 0 && failures == 0))
  exit
}
