# GGUF files from outside: generated, inspected, loaded and verified, in one file and in sets; and
# bad ones refused by name.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

generate() { "$PROGRAM" generate "$@" >/dev/null || fail "generate $*"; }
load() { run load --driver emulated --json --verify "$@"; }

# What is written is what is read, for each kind of type.
for type in F32 F16 BF16 I8 Q4_0 Q8_0 Q4_K Q6_K IQ2_XXS TQ1_0 MXFP4 NVFP4; do
  generate $type.gguf --size 3MiB --tensors 40 --type $type --odd
  run inspect $type.gguf --json --tensors
  expect_exit 0
  expect_json format gguf
  expect_json types.$type.tensors 40
  expect_json tensor_list.5.bytes 0
  (($("$JSON" get tensor_list.7.file_offset <out) % 32 == 0)) || fail 'an offset is not aligned'
  load $type.gguf
  expect_exit 0
  expect_json format gguf
  expect_json verified true
  expect_json tensors 40
done
run inspect Q4_K.gguf
expect_out 'gguf' Q4_K 'general.architecture = generated' 'general.quantization_version = 2'
generate again.gguf --size 3MiB --tensors 40 --type Q4_K --odd
cmp -s Q4_K.gguf again.gguf || fail 'the same options gave other bytes'

# llama.cpp's names make blocks; the content decides, not the name.
generate model --format gguf --size 8MiB --tensors 66 --blocks 8
run inspect model
expect_out 'blk.0-7: 8 blocks x 8 tensors' 'outside them: 2 tensors'
load model
expect_json verified true
for io in threads auto; do
  for direct in on off; do
    load model --io $io --direct-io $direct --ring 1MiB --slot 64KiB
    expect_exit 0
    expect_json verified true
  done
done
mkdir folder
cp model folder/model.gguf
load folder
expect_json tensors 66
expect_json verified true

# A set, by each of its files and its folder.
generate set --format gguf --size 8MiB --tensors 30 --shards 3 --type Q8_0
name=set/model-0000
for path in set set/ ${name}1-of-00003.gguf ${name}2-of-00003.gguf ${name}3-of-00003.gguf; do
  load $path
  expect_exit 0
  expect_json tensors 30
  expect_json shards 3
  expect_json verified true
done
run inspect set --json --tensors
expect_keys tensor_list.29.name
run inspect set
expect_out '30 tensors in 3 files'
run generate set --format gguf --size 8MiB --shards 2 --json
expect_failure INVALID_STATE -of-00003.gguf 'remove it first'
run generate set --size 8MiB --shards 3 --json
expect_failure INVALID_STATE .gguf 'remove it first'

refused() { # STATUS FILE TEXT...
  local name=$1 file=$2
  shift 2
  run inspect "$file" --json
  expect_failure "$name" "$@"
  run load "$file" --driver emulated --json
  expect_failure "$name" "$@"
}
# changed FILE OFFSET BYTES: Q4_K.gguf with other bytes (as printf writes them) at an offset.
changed() {
  cp Q4_K.gguf "$1"
  printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

mv ${name}2-of-00003.gguf hidden.gguf
refused NOT_FOUND set model-00002-of-00003.gguf missing
refused NOT_FOUND ${name}3-of-00003.gguf model-00002-of-00003.gguf missing
refused BAD_FORMAT hidden.gguf hidden.gguf "'...-00002-of-00003.gguf'"
cp ${name}1-of-00003.gguf ${name}2-of-00003.gguf
refused BAD_FORMAT set model-00002-of-00003.gguf 'split.no is 0'

changed version1.gguf 4 '\x01'
refused BAD_FORMAT version1.gguf version1.gguf 'version 1'
changed version9.gguf 4 '\x09'
refused BAD_FORMAT version9.gguf version9.gguf 'version 9'
changed big.gguf 4 '\0\0\0\x03'
refused BAD_FORMAT big.gguf big.gguf big-endian
changed many.gguf 8 '\0\0\0\0\0\0\0\x7f'
refused BAD_FORMAT many.gguf many.gguf '9151314442816847872 tensors'
changed more.gguf 16 '\xff'
refused BAD_FORMAT more.gguf more.gguf
changed magic.gguf 0 'GGML'
refused BAD_FORMAT magic.gguf magic.gguf "'GGUF'"
changed key.gguf 32 '\xff'
refused BAD_FORMAT key.gguf key.gguf 'key 1 of 3' UTF-8
for size in 3 7 23 40 100 1000 3000 200000; do
  head -c $size Q4_K.gguf >cut.gguf
  refused END_OF_FILE cut.gguf cut.gguf
done
: >empty.gguf
refused END_OF_FILE empty.gguf empty.gguf
mkdir two
cp Q4_K.gguf Q8_0.gguf two
refused NOT_FOUND two '2 files'

run generate bad.gguf --size 1MiB --type U8
expect_exit 2
expect_error '--type U8' GGUF
run generate bad.safetensors --size 1MiB --type Q4_K
expect_exit 2
expect_error '--type Q4_K' '--format gguf'
run generate bad --size 1MiB --format onnx
expect_exit 2
expect_error "--format 'onnx'" safetensors gguf
[[ ! -e bad.gguf && ! -e bad.safetensors && ! -e bad ]] || fail 'something was written'
finish
