# sluice repack: the same checkpoint, page by page and block by block; complete or not at all.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

leftovers() { find . -name '*.tmp' -o -name '*.old' | wc -l; }
repack() { run repack --json "$@"; }
# The tensors of a checkpoint as lines "name type shape bytes", in any order.
contents() {
  "$PROGRAM" inspect "$1" --tensors | awk '/ bytes at /' | sed 's/ at [0-9]*.*//' | sort
}
same_contents() {
  checks=$((checks + 1))
  [[ $(contents "$1") == "$(contents "$2")" ]] || fail "$1 and $2 hold other tensors"
}
# The first N tensors begin and end at multiples of 4096.
expect_aligned() { # CHECKPOINT N
  local i
  checks=$((checks + 1))
  "$PROGRAM" inspect "$1" --tensors --json >tensors
  for ((i = 0; i < $2; ++i)); do
    (($("$JSON" get tensor_list.$i.file_offset <tensors) % 4096 == 0 &&
      $("$JSON" get tensor_list.$i.bytes <tensors) % 4096 == 0)) || fail "tensor $i isn't aligned"
  done
}

# One of each kind, with metadata that has to be escaped.
tensor() { printf ',"%s":{"dtype":"%s","shape":%s,"data_offsets":[%s]}' "$@"; }
header='{"__metadata__":{"format":"pt","a \"quoted\"\nkey":"\u00fc\\ \u0001"}'
header+=$(tensor model.layers.0.b U8 '[5]' 0,5)$(tensor model.layers.0.w F32 '[32,32]' 5,4101)
header+=$(tensor model.layers.1.b BF16 '[7]' 4101,4115)
header+=$(tensor model.layers.1.w U8 '[8192]' 4115,12307)
header+=$(tensor 'a \"name\"' I64 '[]' 12307,12315)$(tensor none F16 '[3,0]' 12315,12315)
header+=$(tensor big U8 '[5000]' 12315,17315)'}'
header_file mixed.safetensors "$header" 0
head -c 17315 /dev/urandom >>mixed.safetensors
repack mixed.safetensors packed.safetensors --verify
expect_exit 0
expect_keys source path bytes file_bytes tensors shards aligned_tensors aligned_bytes seconds \
  gb_per_s verified verify_seconds
expect_json bytes 17315
expect_json tensors 7
expect_json aligned_tensors 2
expect_json aligned_bytes 12288
expect_json verified true
expect_json file_bytes "$(stat -c %s packed.safetensors)"
same_contents mixed.safetensors packed.safetensors
expect_aligned packed.safetensors 2
run inspect packed.safetensors --tensors --json
names='model.layers.0.w model.layers.1.w big a "name" none model.layers.0.b model.layers.1.b'
[[ $(for i in {0..6}; do "$JSON" get tensor_list.$i.name <out; done | paste -sd' ') == \
   "$names" ]] || fail 'another order than pages, then blocks, then sizes'
checks=$((checks + 1))
"$PROGRAM" inspect mixed.safetensors --json >before
[[ $("$JSON" get metadata <before) == "$("$JSON" get metadata <out)" ]] || fail 'other metadata'
# Twice is once.
repack packed.safetensors again.safetensors
expect_json verified null
cmp -s packed.safetensors again.safetensors || fail 'a second time gives another file'

# Nothing in it; and sizes that no tensor has in whole pages.
header_file nothing.safetensors '{}' 0
repack nothing.safetensors nothing2.safetensors --verify
expect_exit 0
expect_json tensors 0
expect_json bytes 0
[[ $(stat -c %s nothing2.safetensors) == 4096 ]] || fail 'data do not begin at a page'
"$PROGRAM" generate odd.safetensors --size 20MiB --tensors 90 --odd >/dev/null
repack odd.safetensors odd2.safetensors --verify
expect_exit 0
expect_json aligned_tensors 0
expect_json verified true
same_contents odd.safetensors odd2.safetensors
run load odd2.safetensors --driver emulated --verify --json
expect_json verified true

# Sharded: folder to folder, file by file or divided anew, and what the index says is kept.
"$PROGRAM" generate set --size 16MiB --tensors 66 --blocks 8 --shards 3 >/dev/null
sed -i 's/"total_size":[0-9]*/&,"note":"k\\u00e9pt"/' set/model.safetensors.index.json
for source in set set/ set/model.safetensors.index.json; do
  repack $source set2 --verify --force
  expect_exit 0
  expect_json shards 3
  expect_json verified true
  expect_json aligned_tensors 66
  same_contents set set2
done
[[ $(ls set) == "$(ls set2)" ]] || fail 'other names of files'
[[ $("$JSON" get metadata.note <set2/model.safetensors.index.json) == képt ]] || fail 'no note'
run repack set set3 --shard-size 5MiB --verify
expect_exit 0
expect_out '66 tensors' '4 files and an index' 'equal to the original' 'in whole pages'
same_contents set set3
for ((i = 0; i < 8; ++i)); do
  checks=$((checks + 1))
  [[ $(grep -F "model.layers.$i." set3/*.json | sed 's/.*://; s/[},]//g' | sort -u | wc -l) \
    == 1 ]] || fail "block $i is split"
done
repack odd.safetensors parts --shard-size 1 --verify
expect_exit 0
expect_json shards 89  # an empty tensor is in a file with another
repack parts whole --shard-size 1GiB --verify
expect_exit 0
expect_json shards 1
same_contents odd.safetensors whole

# Files that disagree can stay as they are, but not be mixed.
mkdir differ
header_file differ/a.safetensors '{"__metadata__":{"k":"1"}'"$(tensor a U8 '[1]' 0,1)}" 1
header_file differ/b.safetensors '{"__metadata__":{"k":"2"}'"$(tensor b U8 '[1]' 0,1)}" 1
printf '{"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}' \
  >differ/model.safetensors.index.json
repack differ differ2 --verify
expect_exit 0
for shard in 1:a 2:b; do
  grep -aqF '{"__metadata__":{"k":"'${shard%:*}'"}' differ2/${shard#*:}.safetensors ||
    fail "other metadata in ${shard#*:}"
done
repack differ differ3 --shard-size 1MiB
expect_failure NOT_SUPPORTED metadata "'k'" --shard-size

# What is there stays, unless --force is given; the source always does.
repack mixed.safetensors odd2.safetensors
expect_failure INVALID_STATE odd2.safetensors --force
same_contents odd.safetensors odd2.safetensors
repack mixed.safetensors odd2.safetensors --force --verify
expect_exit 0
same_contents mixed.safetensors odd2.safetensors
repack set set2
expect_failure INVALID_STATE set2 --force
repack set set3 --force
expect_exit 0
[[ $(ls set) == "$(ls set3)" ]] || fail 'old files stayed'
mkdir empty
repack set empty
expect_exit 0
echo text >set3/config.json
repack set set3 --force
expect_failure INVALID_STATE set3 config.json
[[ -f set3/config.json && $(ls set3 | wc -l) == 5 ]] || fail 'a refused folder was changed'

cp mixed.safetensors kept
ln -s mixed.safetensors link.safetensors
ln mixed.safetensors hard.safetensors
ln -s set linkset
same() { # SOURCE TARGET
  run repack "$1" "$2" --force --json
  expect_exit 2
  expect_error "'$2'" 'is the checkpoint that is read'
  expect_json error.status INVALID_ARGUMENT
}
same mixed.safetensors mixed.safetensors
same mixed.safetensors ./mixed.safetensors
same mixed.safetensors link.safetensors
same mixed.safetensors hard.safetensors
same link.safetensors mixed.safetensors
same set set/
same set linkset
same set/model.safetensors.index.json set
cmp -s mixed.safetensors kept || fail 'the source was changed'
if [[ $SYSTEM == Linux ]]; then  # a link is followed; wine hides that it is one
  cp packed.safetensors real.safetensors
  ln -s real.safetensors alias.safetensors
  repack odd.safetensors alias.safetensors --force
  expect_exit 0
  [[ -L alias.safetensors ]] || fail 'the link was replaced'
  same_contents odd.safetensors real.safetensors
fi

# Wrong names and bad input.
wrong() { # TEXT ARGUMENT...
  run repack "${@:2}" --json
  expect_exit 2
  expect_error "$1"
}
wrong 'is a folder' mixed.safetensors set2
wrong 'is a folder' mixed.safetensors absent/
wrong 'is a file' set mixed.safetensors
repack absent.safetensors x.safetensors
expect_failure NOT_FOUND absent.safetensors
repack kept absent/x.safetensors
expect_failure NOT_FOUND absent/x.safetensors
repack set absent/x
expect_failure NOT_FOUND absent/x
header_file cut.safetensors "{${header#*\},}" 300
repack cut.safetensors x.safetensors
expect_exit 1
expect_error cut.safetensors
header_file bad.safetensors '{"a":' 0
repack bad.safetensors x.safetensors
expect_failure BAD_FORMAT bad.safetensors
rm set2/model-00002-of-00003.safetensors
repack set2 x
expect_failure NOT_FOUND model-00002-of-00003.safetensors
huge=15000000000000
header_file huge.safetensors '{"a":{"dtype":"U8","shape":['$huge'],"data_offsets":[0,'$huge']}}' 0
if truncate -s +$huge huge.safetensors 2>/dev/null; then
  repack huge.safetensors x.safetensors
  expect_failure SYSTEM_ERROR 'has room for'
fi
[[ ! -e x && ! -e x.safetensors && $(leftovers) == 0 ]] || fail 'something was left behind'

"$PROGRAM" generate other.gguf --size 1MiB --type Q4_K >/dev/null
run repack other.gguf other.safetensors --json
expect_failure NOT_SUPPORTED other.gguf GGUF
[[ ! -e other.safetensors ]] || fail 'something was left behind'

[[ $SYSTEM == Linux ]] || finish  # elsewhere no limit can be set, and a script can't interrupt

# A limit on the size of files stands for a full disk.
(
  ulimit -f 2000
  run repack odd.safetensors full.safetensors --json
  echo $status >status
  run repack set full --json
  echo $status >>status
)
status=$(sort -u status)
expect_failure SYSTEM_ERROR full/ 'File too large'
[[ ! -e full && ! -e full.safetensors && $(leftovers) == 0 ]] || fail 'something was left behind'

# A signal in the middle. Job control, because background jobs of a script ignore SIGINT.
"$PROGRAM" generate slow.safetensors --size 384MiB --tensors 40000 --odd >/dev/null
set -m
for signal in INT:130 TERM:143; do
  ran="repack, then SIG${signal%:*}"
  "$PROGRAM" repack slow.safetensors target.safetensors --verify --json >out 2>err &
  for ((i = 0; i < 3000 && $(leftovers) == 0; ++i)); do sleep 0.01; done
  kill -s "${signal%:*}" $!
  wait $!
  status=$?
  expect_exit "${signal#*:}"
  expect_json error.status CANCELLED
  [[ ! -e target.safetensors && $(leftovers) == 0 ]] || fail 'something was left behind'
done
finish
