# sluice load from file systems that differ in what they allow: each is mounted for this, loaded
# from in every way, cold and warm. What can't be mounted here is named and left out.
#
# All of it happens in a mount namespace and a process namespace of its own, so that nothing stays
# mounted even if the test is killed.
if [[ ${1:-} != inside ]]; then
  own=(unshare --mount --pid --fork --kill-child --mount-proc)
  ((EUID == 0)) || own+=(--map-root-user)
  if ! refusal=$("${own[@]}" true 2>&1); then
    echo "skip: no file system can be mounted: ${refusal%%$'\n'*}"
    exit 77
  fi
  exec "${own[@]}" bash "${BASH_SOURCE[0]}" inside
fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mounted=()  # in their order
clean() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; --i)); do
    umount "${mounted[i]}" || umount --lazy "${mounted[i]}"
  done
  cd / && rm -rf "$work"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

tried=0
absent=
# Mounts on the last argument, by `COMMAND...`; says why if it can't.
try_mount() {
  local target=${!#}
  mkdir -p "$target"
  if "$@" >refusal 2>&1; then
    mounted+=("$target")
    return 0
  fi
  leave_out "$target" "$(head -n 1 refusal)"
}
leave_out() {
  absent=${absent:-$2}
  echo "not tried: $1: $2"
  return 1
}
# loop_mount FOLDER SECTOR MKFS...: a new file system on a loop device with such sectors. The device
# goes with the mount.
loop_mount() {
  local folder=$1 sector=$2 device answer
  shift 2
  command -v "$1" >/dev/null || { leave_out "$folder" "there is no $1"; return; }
  truncate -s 64M "$folder.image"
  if ! device=$(losetup --find --show --sector-size "$sector" "$folder.image" 2>&1); then
    leave_out "$folder" "$device"
    return
  fi
  answer=$("$@" "$device" 2>&1) || { losetup -d "$device"; leave_out "$folder" "$answer"; return; }
  try_mount mount "$device" "$folder"
  answer=$?
  losetup -d "$device"
  return $answer
}

uring=(uring)
"$PROGRAM" doctor --driver none --json >out
[[ $("$JSON" get io_uring.works <out) == true ]] || uring=()

# loads FOLDER always|remembers|forgets: whether a file is in the page cache whatever one does, is
# there once it was read, or is gone at the next opening.
loads() {
  local file=$1/model.safetensors cache=$2
  local direct=false asked=buffered chosen=buffered answer='opening for direct reads answered'
  local io way state cached
  tried=$((tried + 1))
  # What the machine's own dd can do is what is expected.
  if dd if="$file" of=/dev/null bs=4096 count=1 iflag=direct status=none 2>/dev/null; then
    direct=true asked='direct, as asked' chosen=direct answer='a direct read was tried and works'
  fi
  for io in "${uring[@]}" threads; do
    for way in on off auto; do
      for state in cold warm; do
        sync "$file" 2>/dev/null  # squashfs refuses it
        [[ $state == warm ]] && cat "$file" >/dev/null
        [[ $state == cold ]] && dd if="$file" iflag=nocache count=0 status=none
        cached=$([[ $cache == always || $cache.$state == remembers.warm ]] && echo true)
        run load "$file" --driver emulated --verify --json --io $io --direct-io $way
        ran="$ran ($state)"
        expect_exit 0
        expect_json verified true
        expect_json io.backend $io
        case $way.$cached in
          on.*) expect_json io.direct $direct
            expect_reason "$asked: $answer" ;;
          off.*) expect_json io.direct false
            expect_reason 'buffered, as asked' ;;
          auto.true) expect_json io.direct false
            expect_reason '100 % are in the page cache' 'from the page cache' ;;
          auto.*) expect_json io.direct $direct
            expect_reason "$chosen: $answer" ;;
        esac
        [[ $("$JSON" get io.direct <out) == false ]] || expect_reason 'direct from the disk'
        [[ $way$cached$direct != autofalse ]] || expect_reason 'buffered from the disk'
      done
    done
  done
  run load "$file" --driver emulated --verify --json
  expect_exit 0
  expect_json verified true
}
generates() {
  "$PROGRAM" generate "$1/model.safetensors" --size 4MiB --tensors 30 --odd >out 2>err
  status=$?
  ran="sluice generate $1/model.safetensors"
  expect_exit 0
}

mkdir plain
generates plain

if try_mount mount -t tmpfs -o size=64M none tmpfs; then
  generates tmpfs
  loads tmpfs always
  mkdir tmpfs/{lower,upper,work}
  cp plain/model.safetensors tmpfs/lower
  if try_mount mount -t overlay \
       -o lowerdir=tmpfs/lower,upperdir=tmpfs/upper,workdir=tmpfs/work none overlay_on_tmpfs; then
    loads overlay_on_tmpfs always
    rm overlay_on_tmpfs/model.safetensors
    generates overlay_on_tmpfs
    loads overlay_on_tmpfs always
  fi
fi
if loop_mount sectors_of_4096 4096 mkfs.ext4 -q; then
  generates sectors_of_4096
  loads sectors_of_4096 remembers
  mkdir sectors_of_4096/{lower,upper,work}
  cp plain/model.safetensors sectors_of_4096/lower
  if try_mount mount -t overlay -o lowerdir=sectors_of_4096/lower \
       -o upperdir=sectors_of_4096/upper,workdir=sectors_of_4096/work none overlay_on_ext4; then
    loads overlay_on_ext4 remembers
  fi
fi
if loop_mount sectors_of_512 512 mkfs.ext4 -q; then
  generates sectors_of_512
  loads sectors_of_512 remembers
fi
if loop_mount vfat 512 mkfs.vfat; then
  generates vfat
  loads vfat remembers
fi
# The kernel forgets a file's pages when it is opened again.
if ! command -v bindfs >/dev/null; then
  leave_out fuse 'there is no bindfs'
else
  for options in ro direct_io; do
    if try_mount bindfs -o $options plain fuse_$options; then
      loads fuse_$options forgets
    fi
  done
fi
if ! command -v mksquashfs >/dev/null; then
  leave_out squashfs 'there is no mksquashfs'
elif mksquashfs plain squashfs.image -quiet -no-progress >/dev/null &&
     try_mount mount -t squashfs -o loop squashfs.image squashfs; then
  loads squashfs remembers
fi

if ((tried == 0)); then
  echo "skip: no file system can be mounted: $absent"
  exit 77
fi
echo "$tried tried"
finish
