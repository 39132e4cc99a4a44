# sluice inspect: what it says of a checkpoint, with no driver at all.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$PROGRAM" generate model.safetensors --size 8MiB --tensors 290 --blocks 32 >/dev/null
SLUICE_DRIVER=$work/absent.so run inspect model.safetensors
expect_exit 0
expect_out '290 tensors in 1 file' BF16 'model.layers.0-31: 32 blocks x 9 tensors' 'metadata' \
  'format = pt' 'outside them: 2 tensors'
run inspect model.safetensors --tensors
expect_out model.embed_tokens.weight model.layers.31.part_8.weight head_1.weight
run inspect model.safetensors --json
expect_exit 0
expect_json format safetensors
expect_json tensors 290
expect_json bytes 8388608
expect_json blocks 32
expect_json types.BF16.tensors 290
expect_json block_groups.0.prefix model.layers.
expect_json block_groups.0.tensors_per_block 9
expect_json metadata.format pt
expect_keys path format shards types block_groups outside_blocks metadata
run inspect model.safetensors --json --tensors
expect_json tensor_list.0.name model.embed_tokens.weight
expect_keys tensor_list.289.name tensor_list.0.{type,shape,bytes,shard,file_offset,block}

"$PROGRAM" generate set --size 8MiB --tensors 30 --shards 3 --odd >/dev/null
for path in set set/ set/model.safetensors.index.json; do
  run inspect $path --json --tensors
  expect_exit 0
  expect_json tensors 30
  expect_keys shards.2 tensor_list.29.shard
done

# Names and texts from a file can't steer the terminal.
tensor='{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
header_file odd.safetensors '{"__metadata__":{"k":"a\u001b[2Jb"},"x\u001b[2J":'"$tensor}" 1
run inspect odd.safetensors --tensors
expect_exit 0
expect_out 'a\x1b[2Jb' 'x\x1b[2J'
header_file nothing.safetensors '{}' 0
run inspect nothing.safetensors --json
expect_exit 0
expect_json tensors 0

"$PROGRAM" generate many.safetensors --size 1MiB --tensors 100000 --type U8 >/dev/null
run inspect many.safetensors --json
expect_exit 0
expect_json tensors 100000
finish
