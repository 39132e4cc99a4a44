# Bad input: exit status 1 and an error that names the thing, in words and as JSON.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# refused STATUS FILE TEXT...: by inspect and by load alike.
refused() {
  local name=$1 file=$2
  shift 2
  run inspect "$file" --json
  expect_failure "$name" "$@"
  run load "$file" --driver emulated --json
  expect_failure "$name" "$@"
}

refused NOT_FOUND absent.safetensors absent.safetensors
mkdir empty
refused NOT_FOUND empty empty
mkdir two
header_file two/a.safetensors '{}' 0
header_file two/b.safetensors '{}' 0
refused NOT_FOUND two two
"$PROGRAM" generate set --size 1MiB --shards 3 --tensors 9 >/dev/null
mv set/model-00002-of-00003.safetensors hidden
refused NOT_FOUND set model-00002-of-00003.safetensors
printf '{"weight_map": 3}' >set/model.safetensors.index.json
refused BAD_FORMAT set model.safetensors.index.json

# bad NAME HEADER DATA_BYTES [LENGTH]: a single file with such a header.
bad() {
  header_file "$1.safetensors" "${@:2}"
  refused BAD_FORMAT "$1.safetensors" "$1.safetensors"
}
entry() { printf '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%s]}' "$@"; }

bad too_long '{}' 0 $((101 * 1024 * 1024))
bad huge_length '{}' 0 -1
bad not_json '{"a":' 0
bad not_object '[1]' 0
bad trailing "{$(entry a U8 '[2]' 0,2)} x" 2
bad duplicate "{$(entry a U8 '[2]' 0,2),$(entry a U8 '[2]' 0,2)}" 2
bad overlap "{$(entry a U8 '[4]' 0,4),$(entry b U8 '[4]' 2,6)}" 6
bad hole "{$(entry a U8 '[4]' 0,4),$(entry b U8 '[4]' 6,10)}" 10
bad reversed "{$(entry a U8 '[4]' 4,0)}" 4
bad wrong_size "{$(entry a F32 '[4]' 0,4)}" 4
bad unknown_type "{$(entry a Q9 '[4]' 0,4)}" 4
bad overflow "{$(entry a U8 '[4294967296,4294967296,16]' 0,0)}" 0
bad negative "{$(entry a U8 '[-4]' 0,4)}" 4
bad surplus "{$(entry a U8 '[4]' 0,4)}" 9
header_file beyond.safetensors '{}' 0 5000
header_file cut.safetensors "{$(entry a U8 '[4]' 0,4),$(entry the_cut_one U8 '[400]' 4,404)}" 300
: >zero.safetensors
for name in beyond cut zero; do
  run load $name.safetensors --driver emulated --json
  expect_exit 1
  expect_error $name.safetensors
  expect_keys error.status error.message
done
run inspect cut.safetensors --json
expect_error the_cut_one

# Limits, drivers and devices.
"$PROGRAM" generate good.safetensors --size 8MiB --tensors 20 --odd >/dev/null
good() { run load good.safetensors --json "$@"; }
good --driver emulated --vram-limit 4MiB
expect_failure LIMIT_REACHED vram
good --driver emulated --pinned-limit 64KiB --verify  # no room for a ring: unpinned, and said so
expect_exit 0
expect_json verified true
expect_json pinned_peak_bytes 0
grep -q -- --pinned-limit err || fail 'the log does not name --pinned-limit'
SLUICE_EMULATED_MEMORY=4MiB good --driver emulated
expect_exit 1
expect_keys error.status
SLUICE_EMULATED_FAIL=cuMemCreate:1:2:forever good --driver emulated
expect_failure OUT_OF_DEVICE_MEMORY cuMemCreate
SLUICE_EMULATED_DEVICES=0 good --driver emulated
expect_failure NO_DEVICE
good --driver emulated --device 7
expect_failure NO_DEVICE 7
good --driver "$work/absent.so"
expect_failure NO_DRIVER "$work/absent.so"
good --driver none
expect_exit 1
expect_keys error.status
good --driver good.safetensors
expect_failure NO_DRIVER good.safetensors
good --driver emulated --verify
expect_exit 0
expect_json verified true
if [[ $EUID != 0 ]]; then
  chmod 0 good.safetensors
  good --driver emulated
  expect_failure NOT_PERMITTED good.safetensors
fi
finish
