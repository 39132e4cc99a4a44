# sluice repack when copying goes wrong: seen with a copy_file_range that fails in each way.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$PROGRAM" generate model.safetensors --size 8MiB --tensors 30 --odd >/dev/null
faulty() { # FAULT ARGUMENT...
  local before=${LD_PRELOAD-}
  export SLUICE_TEST_COPY=$1 LD_PRELOAD=$FAILING_COPY
  run repack model.safetensors target.safetensors --json "${@:2}"
  export LD_PRELOAD=$before
}
nothing_left() {
  local others
  checks=$((checks + 1))
  others=$(ls | grep -vxE 'out|err|keys|model.safetensors' | paste -sd' ')
  [[ -z $others ]] || fail "left behind: $others"
}

faulty none --verify
expect_exit 0
expect_json verified true
rm target.safetensors

# Where the kernel can't, a buffer does it.
faulty unsupported --verify
expect_exit 0
expect_json verified true
rm target.safetensors

# One wrong byte in each tensor but the empty one.
faulty damage --verify
expect_failure VERIFY_FAILED 'of 30 tensors differ from the original' 'from byte' 'nothing was kept'
nothing_left
faulty damage
expect_exit 0
rm target.safetensors

faulty full --verify
expect_failure SYSTEM_ERROR target.safetensors 'No space left'
expect_json error.call copy_file_range
nothing_left
faulty touch
expect_failure INVALID_STATE model.safetensors 'was written to'
nothing_left

# A signal in the middle of a slow copy.
export SLUICE_TEST_COPY=slow
ran='slow repack, then SIGTERM'
LD_PRELOAD=$FAILING_COPY "$PROGRAM" repack model.safetensors target.safetensors --json >out 2>err &
for ((i = 0; i < 3000; ++i)); do
  compgen -G 'target.safetensors.*.tmp' >/dev/null && break
  sleep 0.01
done
kill -s TERM $!
wait $!
status=$?
expect_exit 143
expect_json error.status CANCELLED
nothing_left
finish
