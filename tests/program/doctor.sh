# sluice doctor: a diagnosis, with a driver and without one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

common=(devices kernel processors ram.bytes ram.available_bytes container.limit_bytes
  pinned.limit_bytes pinned.reason memlock.limit_bytes io_uring.works io_uring.fixed_buffers
  io_uring.fixed_files io_uring.reason huge_pages paths.0.path missing)

run doctor --driver emulated --json
expect_exit 0
expect_keys "${common[@]}" driver_path devices.0.name devices.0.total_bytes \
  devices.0.granularity_bytes devices.0.link devices.0.numa_node paths.0.direct_io paths.0.reason
expect_json driver emulated
expect_json driver_version 13.0
expect_json paths.0.path .

run doctor --driver "$work/absent.so" --json
expect_exit 0
expect_keys "${common[@]}" driver_error.message missing.0.remedy
expect_json driver null
expect_json driver_error.status NO_DRIVER
run doctor --driver "$work/absent.so"
expect_exit 0
expect_out 'none: ' absent.so 'Missing, and what enables it' '--driver emulated' io_uring RAM

SLUICE_EMULATED_VERSION=11080 SLUICE_EMULATED_DEVICES=2 run doctor --driver emulated
expect_exit 0
expect_out 'emulated, CUDA 11.8' 'GPU 0' 'GPU 1' system RAM pinned memlock io_uring \
  'direct I/O'
SLUICE_EMULATED_DEVICES=2 run doctor --driver emulated --device 1 --json
expect_exit 0
expect_json devices.0.ordinal 1
SLUICE_EMULATED_DEVICES=0 run doctor --driver emulated
expect_exit 0
expect_out 'a GPU: ' CUDA_VISIBLE_DEVICES
run doctor --driver emulated --device 9 --json
expect_exit 1
expect_error 9
expect_json error.status NO_DEVICE

mkdir folder
echo text >file
run doctor folder file --driver none --json
expect_exit 0
expect_json driver null
expect_json paths.0.temporary_file true
expect_json paths.1.temporary_file false
[[ -z $(ls -A folder) ]] || fail 'the temporary file was left behind'
"$PROGRAM" generate model.safetensors --size 4MiB --tensors 3 >/dev/null
run doctor model.safetensors --driver emulated --json
expect_exit 0
expect_keys paths.0.fast_disk.{on,model_bytes,ram_room_bytes,reason}
expect_out ' fit into ' ' of RAM; the disk '
run doctor model.safetensors --driver emulated --fast-disk on
expect_exit 0
expect_out 'fast disk' 'on; as asked'
run doctor model.safetensors --driver none
grep -q 'fast disk' out && fail 'measures the way to a device without a device'
run doctor absent --driver none --json
expect_exit 1
expect_error absent
expect_json paths.0.error.status NOT_FOUND
run doctor absent --driver emulated
expect_exit 1
grep -q 'Nothing is missing' out && fail 'says that nothing is missing'
grep -q 'absent.*absent' out && fail 'the path is said twice'
run doctor --driver emulated
SLUICE_EMULATED_MEMORI=1GiB run doctor --driver emulated
grep -q 'SLUICE_EMULATED_MEMORI' err || fail 'a setting with a wrong name is not told'
[[ $SYSTEM == Linux ]] || finish  # the others start it through a script

# Found through PATH, or under another name, the program still finds the emulated driver beside
# itself, and never takes one that lies in the current folder.
mkdir elsewhere
printf 'not a library' >elsewhere/libsluice_emulated_driver.so
for start in 'PATH=$(dirname "$PROGRAM"):$PATH sluice' 'exec -a sluice "$PROGRAM"'; do
  ran="$start doctor, in a folder with another driver"
  (cd elsewhere && eval "$start doctor --driver emulated --json") >out 2>err
  status=$?
  expect_exit 0
  grep -q "$(dirname "$PROGRAM")/libsluice_emulated_driver.so" out || fail 'another driver'
done
finish
