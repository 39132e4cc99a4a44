#!/usr/bin/env bash
# Runs Windows programs on Linux; WINEPREFIX and WINE are set by ctest.
#   wine.sh start               makes the prefix and keeps wine's server running
#   wine.sh stop
#   wine.sh run PROGRAM ARGUMENT...
set -euo pipefail
: "${WINE:?}" "${WINEPREFIX:?}"

# Without a server that stays, each program starts one, and some meet the last one's end.
server() { "$(dirname "$WINE")/wineserver" "$@" </dev/null >/dev/null 2>&1; }

# The first program of several starts wine's services, which hold its output open after its end and
# stay as long as some program runs: one that waits for input that doesn't come.
keep_services() {
  (setsid sh -c 'echo $$ >"$0"; exec sleep 3600' "$WINEPREFIX/keeper.pid" |
    "$WINE" cmd.exe /c pause) </dev/null >/dev/null 2>&1 &
  "$WINE" cmd.exe /c exit </dev/null >/dev/null 2>&1
}

case $1 in
  start)
    mkdir -p "$WINEPREFIX"
    server -k || true  # one of an earlier run, in which something may be left
    server -p
    [[ -e $WINEPREFIX/system.reg ]] || "$WINE" wineboot.exe -i </dev/null >/dev/null 2>&1
    keep_services
    ;;
  stop)
    server -k || true
    kill "$(<"$WINEPREFIX/keeper.pid")" || true
    ;;
  run) shift; exec "$WINE" "$@" ;;
  *) exit 2 ;;
esac
