# sluice load where the system gives little: descriptors, locked memory, no io_uring; and files
# whose shape is unusual.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# under COMMAND... -- ARGUMENT...: `sluice load --driver emulated --json` that COMMAND starts.
under() {
  local -a command=()
  while [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  shift
  ran="${command[*]} sluice load $*"
  "${command[@]}" "$PROGRAM" load --driver emulated --json "$@" >"$work/out" 2>"$work/err"
  status=$?
}
# limit FLAG VALUE COMMAND...: with that ulimit.
limit() {
  (ulimit "$1" "$2" && shift 2 && exec "$@")
}
expect_verified() {
  expect_exit 0
  expect_json verified true
}
"$PROGRAM" generate model.safetensors --size 4MiB --tensors 30 --odd >/dev/null
"$PROGRAM" doctor --driver none --json >out
uring=$("$JSON" get io_uring.works <out)

# More files than descriptors. A direct read needs one more for each file, and does without.
shards=1100
"$PROGRAM" generate set --size 2MiB --tensors $shards --shards $shards >/dev/null
under limit -Sn 600 -- set --verify
expect_failure OUT_OF_FILE_DESCRIPTORS set/model-0 'ulimit -n'
hard=$(ulimit -Hn)
if [[ $hard == unlimited ]] || ((hard >= 1500)); then
  under limit -Sn 1500 -- set --verify --direct-io on
  expect_verified
  expect_json shards $shards
  (($("$JSON" get stats.direct_io_fallbacks <out) > 0)) || fail 'no file was read buffered'
else
  echo "not tried: $shards shards, since the limit of descriptors is $hard"
fi
if [[ $hard == unlimited ]] || ((hard >= 4096)); then
  for direct in on off auto; do
    under limit -Sn 4096 -- set --verify --direct-io $direct
    expect_verified
    expect_json shards $shards
  done
fi
rm -rf set

# A tensor a thousand times as large as the ring.
"$PROGRAM" generate large.safetensors --size 128MiB --tensors 1 >/dev/null
for io in threads auto; do
  under env -- large.safetensors --verify --io $io --ring 128KiB --slot 64KiB
  expect_verified
  expect_json tensors 1
  (($("$JSON" get pinned_peak_bytes <out) <= 131072)) || fail 'ring above its size'
done
rm large.safetensors

# A tensor behind a hole of 4 GiB, at no multiple of a page.
le() {
  local i
  for ((i = 0; i < $2; ++i)); do printf '%b' "\\x$(printf %02x $(($1 >> 8 * i & 255)))"; done
}
far=$(((1 << 32) + 12320)) count=300001
{
  printf GGUF
  le 3 4 && le 1 8 && le 0 8
  le 3 8 && printf far && le 1 4 && le $count 8 && le 24 4 && le $far 8
} >far.gguf
data=$((($(stat -c %s far.gguf) + 31) / 32 * 32 + far))
head -c $count /dev/urandom >bytes
dd if=bytes of=far.gguf oflag=seek_bytes seek=$data status=none
for direct in on off; do
  under env -- far.gguf --verify --direct-io $direct --slot 64KiB
  expect_verified
  expect_json bytes $count
done
run inspect far.gguf --json --tensors
expect_json tensor_list.0.file_offset $data
dd if=far.gguf of=read iflag=skip_bytes skip=$data status=none
cmp -s bytes read || fail 'the test has put the bytes elsewhere'
truncate -s -1 far.gguf
under env -- far.gguf
expect_failure END_OF_FILE far.gguf far

# Tensors without bytes, among others and alone.
empty='"none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}'
header_file empty.safetensors "{$empty}" 0
one='"one":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
header_file among.safetensors "{$empty,$one}" 1
for file in empty among; do
  for direct in on off; do
    under env -- $file.safetensors --verify --direct-io $direct
    expect_verified
  done
done
expect_json bytes 1

# Locked memory. Root may lock any amount, unless that is taken from it.
bounded=()
if [[ $EUID == 0 ]] && setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock true 2>/dev/null; then
  bounded=(setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock)
fi
for kib in 0 64; do
  for io in auto threads; do
    under limit -l $kib "${bounded[@]}" -- model.safetensors --verify --io $io --direct-io on
    expect_verified
    expect_json io.fixed_buffers false
  done
  [[ $uring == true ]] || continue
  under limit -l $kib "${bounded[@]}" -- model.safetensors --verify --io uring --direct-io on
  if [[ $status == 0 ]]; then  # of the least, rings are refused too
    expect_verified
    expect_json io.fixed_buffers false
    (($("$JSON" get stats.fixed_buffer_fallbacks <out) > 0)) || fail 'the fallback is not counted'
  else
    expect_failure OUT_OF_LOCKED_MEMORY 'ulimit -l'
  fi
done

# System calls that are refused. These have the same numbers on every machine.
setup=425 enter=426 register=427 cachestat=451
eperm=1 enosys=38
under "$REFUSE_CALLS" $enosys $cachestat -- model.safetensors --verify
if [[ $status == 125 ]]; then
  echo "not tried: refused system calls: $(<err)"
  finish
fi
expect_verified
for calls in $setup $enter $setup,$enter,$register; do
  for errno in $eperm $enosys; do
    under "$REFUSE_CALLS" $errno $calls -- model.safetensors --verify --direct-io on
    expect_verified
    expect_json io.backend threads
    expect_reason 'positioned reads on threads, since io_uring is refused'
    expect_json stats.uring_fallbacks 1
    grep -q 'positioned reads take the place of io_uring' err || fail 'the log does not say it'
    under "$REFUSE_CALLS" $errno $calls -- model.safetensors --io uring
    expect_exit 1
    expect_error io_uring_
    [[ $errno == "$enosys" ]] || expect_failure NOT_PERMITTED io_uring_ seccomp
  done
done
if [[ $uring == true ]]; then  # neither buffers nor files are registered
  under "$REFUSE_CALLS" $eperm $register -- model.safetensors --verify --io uring --direct-io on
  expect_verified
  expect_json io.backend uring
  expect_json io.fixed_buffers false
fi
finish
