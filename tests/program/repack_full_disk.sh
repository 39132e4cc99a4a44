# sluice repack onto a disk that has no room: named, and nothing is left behind.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mkdir disk
# The third file can't be made: folder and two files take what there is beside the root.
if ! mount -t tmpfs -o size=4M,nr_inodes=4 none disk 2>mount_error; then
  echo "skip: no tmpfs can be mounted: $(head -n 1 mount_error)"
  exit 77
fi
trap 'umount disk; rm -rf "$work"' EXIT

"$PROGRAM" generate model.safetensors --size 8MiB --tensors 30 --odd >/dev/null
"$PROGRAM" generate set --size 1MiB --tensors 30 --shards 4 >/dev/null
empty() {
  checks=$((checks + 1))
  [[ -z $(ls -A disk) ]] || fail "left behind: $(ls -A disk | paste -sd' ')"
}
run repack model.safetensors disk/target.safetensors --json
expect_failure SYSTEM_ERROR disk 'has room for 4.0 MiB'
empty
run repack set disk/target --json
expect_failure SYSTEM_ERROR model-00003-of-00004.safetensors 'No space left'
empty
run repack set/model-00001-of-00004.safetensors disk/target.safetensors --verify --json
expect_exit 0
expect_json verified true
finish
