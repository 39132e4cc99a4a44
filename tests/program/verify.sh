# sluice load --verify fails when bytes on the device differ: seen with a driver that damages them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$PROGRAM" generate model.safetensors --size 16MiB --tensors 64 >/dev/null
damaged() { # EVERY ARGUMENT...
  SLUICE_TEST_DAMAGE=$1 run load model.safetensors --driver "$DAMAGING_DRIVER" --verify "${@:2}"
}

damaged 0 --json
expect_exit 0
expect_json verified true
expect_json mismatched_tensors 0

# One wrong byte in each copy; whole tensors share copies, so there are fewer than 64 or as many.
damaged 1 --json --slot 64KiB --ring 1MiB
expect_exit 1
expect_json verified false
expect_json mismatched_tensors 64
expect_json error.status VERIFY_FAILED
expect_keys bytes seconds mismatched_names.9 error.message
expect_error '64 of 64 tensors differ' 'tensor_0 from byte' 'and 54 more'

damaged 20 --slot 64KiB --ring 1MiB
expect_exit 1
expect_error 'tensors differ from the file' 'from byte' 'of 262144'
expect_out 'GB/s'

# Without --verify nobody looks.
SLUICE_TEST_DAMAGE=1 run load model.safetensors --driver "$DAMAGING_DRIVER"
expect_exit 0
finish
