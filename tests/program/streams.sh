# stdout and stderr: results on the one, all else on the other; readers that go away; full disks.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$PROGRAM" generate model.safetensors --size 4MiB --tensors 20000 --type U8 >/dev/null
ran='inspect into a pipe that is closed early'
: >out
"$PROGRAM" inspect model.safetensors --tensors 2>err | head -n 1 >/dev/null
status=${PIPESTATUS[0]}
expect_exit 0
[[ ! -s err ]] || fail 'stderr is not empty'

ran='help into a pipe that nobody reads'
{ sleep 0.2; "$PROGRAM" --help 2>err; echo $? >status; } | true
status=$(<status)
expect_exit 0

ran='inspect into a full disk'
"$PROGRAM" inspect model.safetensors >/dev/full 2>err
status=$?
expect_exit 1
expect_error stdout 'No space left'

ran='inspect with stdout closed'
"$PROGRAM" inspect model.safetensors >&- 2>err
status=$?
expect_exit 1
expect_error stdout

ran='load with stderr closed'
"$PROGRAM" load model.safetensors --driver emulated --verify --json >out 2>&-
status=$?
expect_exit 0
expect_json verified true

ran='load with everything closed'
"$PROGRAM" load model.safetensors --driver emulated >&- 2>&- <&-
status=$?
expect_exit 1

# Log lines go to stderr and leave the JSON alone.
run load model.safetensors --driver emulated --json --log-level debug
expect_exit 0
expect_json verified null
expect_keys stats.reads
finish
