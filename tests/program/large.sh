# A checkpoint of 4 GiB, 1,000 tensors of odd sizes at odd offsets, verified with every reader,
# path and ring; and the program's own memory stays small, whatever the file's size.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Files of this size are kept off a /tmp that lives in RAM.
home=$(mktemp -d "$(dirname "$PROGRAM")/sluice-large-XXXXXX")
trap 'rm -rf "$work" "$home"' EXIT
model=$home/odd.safetensors
"$PROGRAM" generate "$model" --size 4GiB --tensors 1000 --odd >/dev/null || fail 'generate'
size=$("$PROGRAM" inspect "$model" --json | "$JSON" get bytes)

uring=(uring)
"$PROGRAM" doctor --driver none --json >out
[[ $("$JSON" get io_uring.works <out) == true ]] || uring=()
for io in "${uring[@]}" threads; do
  for direct in on off; do
    for ring in 16MiB 256MiB; do
      run load --driver emulated --json "$model" --verify --io $io --direct-io $direct --ring $ring
      expect_exit 0
      expect_json bytes "$size"
      expect_json tensors 1000
      expect_json verified true
      expect_json mismatched_tensors 0
    done
  done
done

# The emulated device's memory is shared memory of the process (RssShmem); the rest is its own.
SLUICE_EMULATED_MISUSE=off "$PROGRAM" load --driver emulated --ring 16MiB "$model" >out 2>err &
load=$!
ran='sluice load, watched'
own=0
while [[ -r /proc/$load/status ]]; do
  now=$(awk '/^RssAnon/ {print $2}' /proc/$load/status 2>/dev/null)
  [[ -n $now ]] || break
  ((now > own)) && own=$now
  sleep 0.05
done
wait $load
status=$?
expect_exit 0
checks=$((checks + 1))
((own > 0 && own <= (16 + 64) << 10)) || fail "$own KiB of its own, with a ring of 16 MiB"
finish
