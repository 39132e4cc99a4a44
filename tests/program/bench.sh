# sluice bench io: every row is there and makes sense, what is read is right, wrong input is named.
# No figure is judged: whether one is good is no question for a test.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$PROGRAM" generate model.safetensors --size 12MiB --tensors 20 --odd >/dev/null
size=$(stat -c %s model.safetensors)
bench() { run bench io "$1" --driver emulated --json "${@:2}"; }

# rows.txt: a line for each row, "work|how|bytes|samples|median|min|max|speed|processor seconds".
list_rows() {
  local i=0
  : >rows.txt
  while "$JSON" get rows.$i.{work,how,bytes,samples} rows.$i.seconds.{median,min,max} \
    rows.$i.{gb_per_s,processor_s_per_gb} <out >row; do
    paste -sd'|' row >>rows.txt
    i=$((i + 1))
  done
}
# expect_rows WORK BYTES SAMPLES HOW...: the rows of that work begin with these (shell patterns),
# and all of them have figures that can be.
expect_rows() {
  local name=$1 bytes=$2 samples=$3 found=0 work_of how row
  shift 3
  checks=$((checks + 1))
  while IFS='|' read -r work_of how row; do
    [[ $work_of == "$name" ]] || continue
    found=$((found + 1))
    if [[ $# -gt 0 ]]; then
      [[ $how == $1 ]] || fail "$name: '$how' instead of '$1'"
      shift
    fi
    awk -F'|' -v bytes="$bytes" -v samples="$samples" \
      '$1 != bytes || $2 != samples || $6 <= 0 || $7 < 0 { exit 1 }
       $4 <= 0 || $4 > $3 || $3 > $5 { exit 1 }' \
      <<<"$row" || fail "$name, $how: figures that can't be: $row"
  done <rows.txt
  [[ $# == 0 ]] || fail "$name: no row '$1'"
  ((found > 0)) || fail "no rows of $name"
}

bench model.safetensors --rounds 2 --verify
expect_exit 0
expect_keys path bytes file_bytes rounds driver driver_version driver_path device.ordinal \
  device.name processors ring_bytes slot_bytes resident.warm resident.cold verified notes \
  ratios.3.work ratios.3.sluice ratios.3.best_plain ratios.3.seconds ratios.3.processor_seconds
expect_json bytes "$size"
expect_json file_bytes "$size"
expect_json rounds 2
expect_json driver emulated
expect_json verified true
expect_json resident.cold null
expect_json notes '[]'
list_rows
expect_rows 'file -> host, warm' "$size" 2 'sluice, to pinned memory' \
  'positioned reads, 1 thread' 'positioned reads, 2 threads' 'positioned reads, 4 threads'
expect_rows 'host -> device' "$size" 2 'pinned by sluice, copies of 2.0 MiB' \
  'cuMemAllocHost, copies of 2.0 MiB' 'cuMemAllocHost, copies of 64.0 MiB' 'pageable, *'
expect_rows 'file -> device, warm' "$size" 2 sluice 'positioned reads, pinned ring, 1 thread' \
  'positioned reads, pinned ring, 2 threads' 'positioned reads, pinned ring, 4 threads'
expect_rows pinning 62914560 2 'sluice_pinned_alloc, *' 'cuMemAllocHost, *'
grep -q 'memcpy from a mapping, 4 threads' out || fail 'no row of a mapping'
grep -q cold, out && fail 'cold rows without --cold'

# Cold, other slots, and sizes that fit to nothing.
for slot in 64KiB 4MiB; do
  bench model.safetensors --rounds 1 --verify --cold --size 10000001 --slot $slot --io threads
  expect_exit 0
  expect_json bytes 10000001
  expect_json verified true
  list_rows
  expect_rows 'file -> host, cold' 10000001 1 'sluice, to pinned memory'
  expect_rows 'file -> device, cold' 10000001 1 sluice
  expect_keys resident.cold ratios.5.seconds
done
grep -q 'direct reads, 8 threads' out || fail 'no row of direct reads'
grep -q 'direct reads, pinned ring, 8 threads' out || fail 'no row of direct reads to the device'
if [[ $SYSTEM != Linux ]]; then
  expect_json resident.cold null
  grep -q 'no program can drop a file from the page cache' out || fail 'no note about cold rows'
  expect_rows 'file -> device, cold' 10000001 1 sluice 'direct reads, pinned ring, 1 thread'
fi
printf x >one
bench one --rounds 2 --verify
expect_exit 0
expect_json bytes 1
expect_json verified true
head -c 45000000 /dev/urandom >several  # both halves of the pinned memory, and more than once
bench several --rounds 1 --verify --pinned-limit 48MiB
expect_exit 0
expect_json verified true
SLUICE_EMULATED_DEVICES=2 bench one --rounds 1 --device 1
expect_json device.ordinal 1

run bench io model.safetensors --driver emulated --rounds 2 --cold --verify
expect_exit 0
expect_out '2 rounds, medians' 'emulated driver' 'page cache' 'file -> host, warm' \
  'file -> device, cold' 'CPU s/GB' 'of the time of the best plain row' verified
[[ ! -s err ]] || fail 'stderr is not empty'

# What can't be measured is said and left out.
SLUICE_EMULATED_PINNED_LIMIT=100MiB bench model.safetensors --rounds 1
expect_exit 0
grep -q 'pinning, .*left out after 0 rounds' out || fail 'no note about what is left out'

# A driver that stores wrong bytes.
SLUICE_TEST_DAMAGE=1 run bench io model.safetensors --driver "$DAMAGING_DRIVER" --json --rounds 1
expect_exit 0
SLUICE_TEST_DAMAGE=1 run bench io model.safetensors --driver "$DAMAGING_DRIVER" --json --verify
expect_failure VERIFY_FAILED 'file -> device' 'differs from the file from byte'

bench absent
expect_failure NOT_FOUND absent
bench .
expect_failure INVALID_ARGUMENT "'.'" 'not a regular file'
bench /dev/zero
expect_failure INVALID_ARGUMENT /dev/zero 'not a regular file'
mkfifo pipe
bench pipe
expect_failure INVALID_ARGUMENT pipe 'not a regular file'
: >empty
bench empty
expect_failure INVALID_ARGUMENT empty
bench model.safetensors --device 7
expect_failure NO_DEVICE 7
bench model.safetensors --vram-limit 2MiB
expect_failure LIMIT_REACHED vram --size
bench model.safetensors --pinned-limit 64KiB
expect_failure LIMIT_REACHED pinned
run bench io model.safetensors --driver none --json
expect_exit 1
expect_keys error.status

[[ $SYSTEM == Linux ]] || finish  # elsewhere a script can't interrupt

# A signal in the middle.
set -m
ran='bench, then SIGINT'
"$PROGRAM" bench io model.safetensors --driver emulated --rounds 1000 --json >out 2>err &
sleep 1
kill -s INT $!
wait $!
status=$?
expect_exit 130
expect_json error.status CANCELLED
finish
