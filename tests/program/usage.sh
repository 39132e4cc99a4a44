# Wrong usage: exit status 2, a sentence that names the flag, the value and what is allowed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

wrong() { # TEXT... -- ARGUMENT...
  local texts=()
  while [[ $1 != -- ]]; do texts+=("$1"); shift; done
  shift
  run "$@"
  expect_exit 2
  expect_error "${texts[@]}"
  expect_silent_out
}

wrong 'command is missing' doctor inspect load generate repack bench --
wrong "unknown command 'fly'" load -- fly
wrong "unknown command 'laod'" "did you mean 'load'" -- laod x
wrong "unknown flag '--fast' before the command" -- --fast load x
wrong "'sluice load' needs a PATH" -- load
wrong "'sluice load' needs a PATH" -- load ''
wrong "'sluice inspect' needs a PATH" -- inspect --json=
wrong "one argument too many" "'b'" -- load a b
wrong "unknown flag '--verfy'" "did you mean '--verify'" -- load a --verfy
wrong "unknown flag '--rng'" "did you mean '--ring'" -- load a --rng 16MiB
wrong "unknown flag '--odd' of 'sluice load'" -- load a --odd
wrong "unknown flag '-v'" -- load a -v
wrong '--verify takes no value' -- load a --verify=yes
wrong '--json takes no value' -- doctor --json=1
wrong "--device 'x'" 'whole number' -- load a --device x
wrong "--device '-1'" 'whole number' -- load a --device -1
wrong "--device '1e1'" 'whole number' -- doctor --device 1e1
wrong '--device needs a value' -- load a --device
wrong --driver auto emulated PATH -- load a --driver
wrong --ring 3 -- load a --ring 3
wrong --ring 2TiB -- load a --ring 2TiB
wrong --slot 'multiple of 4096' -- load a --driver none --slot 70000
wrong --ring slots -- load a --driver none --ring 1MiB --slot 1MiB
wrong --vram-limit lots SIZE -- load a --vram-limit lots
wrong --vram-limit -5 -- load a --vram-limit=-5
wrong --pinned-limit -- load a --pinned-limit
wrong --io sockets uring threads -- load a --io sockets
wrong --io-workers 0 -- load a --io-workers 0
wrong --direct-io maybe auto on off -- load a --direct-io=maybe
wrong --log-level loud debug -- load a --log-level loud
wrong "'sluice generate' needs --size" -- generate a
wrong "--size 'big'" 8GiB -- generate a --size big
wrong "--size '0'" -- generate a --size 0
wrong "--size 'none'" -- generate a --size none
wrong 'too small for 200 tensors' -- generate a --size 100
wrong "--type 'I4'" BF16 -- generate a --size 1MiB --type I4
wrong "--tensors '0'" -- generate a --size 1MiB --tensors 0
wrong --blocks tensors -- generate a --size 1MiB --tensors 3 --blocks 4
wrong --shards tensors -- generate a --size 1MiB --tensors 3 --shards 4
wrong 'is a folder' --shards -- generate . --size 1MiB
wrong "'sluice repack' needs SOURCE and TARGET" -- repack
wrong "'sluice repack' needs SOURCE and TARGET" -- repack a
wrong "'sluice repack' needs SOURCE and TARGET" -- repack a ''
wrong "one argument too many for 'sluice repack': 'c'" -- repack a b c
wrong "'sluice bench' needs the word io and a FILE" -- bench
wrong "'sluice bench' needs the word io and a FILE" -- bench io
wrong "'sluice bench' needs the word io and a FILE" -- bench a b
wrong "one argument too many for 'sluice bench': 'b'" -- bench io a b
wrong "--rounds '0'" 'from 1 to 1000' -- bench io a --rounds 0
wrong "--size '0'" -- bench io a --size 0
wrong '--cold takes no value' -- bench io a --cold=1
wrong "--shard-size '0'" -- repack a b --shard-size 0
wrong "--shard-size 'none'" -- repack a b --shard-size none
wrong '--force takes no value' -- repack a b --force=1
wrong "unknown flag '--force' of 'sluice load'" -- load a --force

run load a --json --io sockets
expect_exit 2
expect_error --io
expect_json error.status INVALID_ARGUMENT

SLUICE_RING=much run load a --driver none
expect_exit 2
expect_error SLUICE_RING much

# Help and version are results: on stdout, exit status 0.
for command in doctor inspect load generate repack bench; do
  run "$command" --help
  expect_exit 0
  expect_out "Usage: sluice $command" --json --vram-limit --vram-headroom --pinned-limit --ring \
    --slot --io-workers --direct-io --fast-disk --huge-pages --log-level --driver
  run help "$command"
  expect_out "Usage: sluice $command"
done
run --help
expect_exit 0
expect_out doctor inspect load generate repack bench 'Exit status' SLUICE_VRAM_LIMIT
run load --help
expect_out --verify --device 'sluice load model.safetensors --verify'
run --version
expect_exit 0
expect_out 'sluice 0.'

# A path may begin with a slash on every system.
run inspect "/no/such file.gguf"
expect_exit 1
expect_error 'no such file' 'such file.gguf'

# Paths that look like flags stand behind "--".
run load --driver none -- --odd
expect_exit 1
run load --driver none -- a b
expect_exit 2
expect_error "'b'"
finish
