# sluice generate: same options, same bytes; complete files or none.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data_of() { # the bytes behind the header
  local length
  length=$(od -An -t u8 -N 8 "$1")
  tail -c +$((length + 9)) "$1"
}
leftovers() { find . -name '*.tmp' | wc -l; }

run generate a.safetensors --size 20MiB --tensors 77 --odd --json
expect_exit 0
expect_keys path bytes tensors shards blocks type odd seed seconds gb_per_s
expect_json tensors 77
expect_json type U8
run generate b.safetensors --size 20MiB --tensors 77 --odd
expect_exit 0
expect_out b.safetensors '77 tensors'
cmp -s a.safetensors b.safetensors || fail 'the same options gave other bytes'
run generate b.safetensors --size 20MiB --tensors 77 --odd --seed 2
cmp -s a.safetensors b.safetensors && fail 'another seed gave the same bytes'
run inspect a.safetensors --json --tensors
expect_json tensor_list.3.bytes 1
expect_json tensor_list.5.bytes 0
(($("$JSON" get tensor_list.0.file_offset <out) % 8 == 5)) || fail 'the data start is aligned'

run generate c --size 20MiB --tensors 77 --odd --shards 5
expect_exit 0
[[ $(for file in c/*.safetensors; do data_of "$file"; done | cksum) == \
   $(data_of a.safetensors | cksum) ]] || fail 'the data depends on the number of files'
for type in F16 BF16 F32 U8; do
  run generate t.safetensors --size 3MiB --tensors 10 --type $type
  expect_exit 0
  run inspect t.safetensors --json
  expect_exit 0
  expect_json types.$type.tensors 10
  expect_json bytes $((3 << 20))
done
run generate one.safetensors --size 1 --tensors 1 --type U8
expect_exit 0

run generate absent/a.safetensors --size 1MiB
expect_exit 1
expect_error absent/a.safetensors
run generate a.safetensors --size 1MiB --shards 2
expect_exit 1
expect_error a.safetensors

# Shards of another checkpoint are not left lying beside the new ones, nor taken away.
run generate c --size 1MiB --shards 3 --json
expect_failure INVALID_STATE c -of-00005.safetensors 'remove it first'
[[ $(ls c/*.safetensors | wc -l) == 5 ]] || fail 'a refused folder was changed'
run generate c --size 20MiB --tensors 77 --odd --shards 5
expect_exit 0

run generate huge.safetensors --size 4000TiB --tensors 9 --json
expect_failure SYSTEM_ERROR 'has room for'
run generate huge --size 4000TiB --tensors 9 --shards 2 --json
expect_failure SYSTEM_ERROR 'has room for'
[[ ! -e huge ]] || fail 'the folder was left behind'

[[ $SYSTEM == Linux ]] || finish  # elsewhere no limit can be set

# No room: named, and nothing is left behind, neither the file nor the folder.
(
  ulimit -f 2000
  run generate big.safetensors --size 100MiB --json
  echo $status >status
  run generate big --size 100MiB --shards 3 --json
  echo $status >>status
)
status=$(sort -u status)
expect_failure SYSTEM_ERROR big/model-00001-of-00003.safetensors 'File too large'
[[ ! -e big && ! -e big.safetensors ]] || fail 'something was left behind'
[[ $(leftovers) == 0 ]] || fail 'temporary files were left behind'
finish
