# sluice load on the emulated driver: verified with every reader, path and ring.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

keys=(path format bytes tensors shards seconds header_seconds gb_per_s verified mismatched_tensors
  driver driver_version driver_path device.ordinal device.name io.backend io.direct io.fixed_buffers
  io.reason pinned_peak_bytes vram_peak_bytes stats.reads stats.copies stats.bytes_copied
  stats.pinned_limit_bytes stats.huge_page_fallbacks)

"$PROGRAM" generate odd.safetensors --size 64MiB --tensors 200 --odd >/dev/null
"$PROGRAM" generate set --size 16MiB --tensors 50 --shards 4 --blocks 8 --type F32 >/dev/null
load() { run load --driver emulated --json "$@"; }
size=$("$PROGRAM" inspect odd.safetensors --json | "$JSON" get bytes)

uring=(uring)
"$PROGRAM" doctor --driver none --json >out
[[ $("$JSON" get io_uring.works <out) == true ]] || uring=()
for io in "${uring[@]}" threads auto; do
  for direct in on off; do
    for ring in 1MiB 16MiB 256MiB; do
      slot=2MiB
      [[ $ring == 1MiB ]] && slot=64KiB
      load odd.safetensors --verify --io $io --direct-io $direct --ring $ring --slot $slot
      expect_exit 0
      expect_keys "${keys[@]}"
      expect_json bytes "$size"
      expect_json tensors 200
      expect_json verified true
      expect_json mismatched_tensors 0
      expect_json driver emulated
      [[ $io == auto ]] || expect_json io.backend $io
      [[ $direct == on ]] || expect_json io.direct false
      (($("$JSON" get pinned_peak_bytes <out) <= ${ring%MiB} << 20)) || fail 'ring above its size'
      (($("$JSON" get vram_peak_bytes <out) >= size)) || fail 'VRAM peak below the size'
    done
  done
done

for version in 11080 12040 12080 13000; do
  SLUICE_EMULATED_VERSION=$version load odd.safetensors --verify
  expect_exit 0
  expect_json verified true
done
load set --verify
expect_exit 0
expect_json shards 4
expect_json verified true
load set --vram-limit 32MiB --pinned-limit 8MiB --io-workers 1 --slot 64KiB --verify
expect_json verified true
load set
expect_exit 0
expect_json verified null
expect_json mismatched_tensors null
SLUICE_EMULATED_DEVICES=2 load set --verify --device 1
expect_json verified true
expect_json device.ordinal 1

run load set --driver emulated --verify
expect_exit 0
expect_out '50 tensors, 16.0 MiB' GB/s device emulated reading memory verified
[[ ! -s err ]] || fail 'stderr is not empty'

[[ $SYSTEM == Linux ]] || finish  # signals

# A signal in the middle: a clean end with 128 + signal. timeout sends it, in the foreground once
# only (the second one ends the program at once); a script's background jobs ignore SIGINT.
export SLUICE_EMULATED_H2D_BANDWIDTH=4MiB
for signal in INT:130 TERM:143; do
  ran="load, then SIG${signal%:*}"
  timeout --foreground --preserve-status -s "${signal%:*}" 2 "$PROGRAM" load odd.safetensors \
    --driver emulated --ring 1MiB --slot 64KiB --json >out 2>err
  status=$?
  expect_exit "${signal#*:}"
  expect_json error.status CANCELLED
done
finish
