#!/usr/bin/env bash
# The whole check: starts a broker and a run on the demo model, lets check_stream.py produce and consume, kills the run
# with -9 in between and starts it again. Every other kill comes at the worst moment, when a checkpoint has just been
# completed and its transactions are being committed; the rest come at random.
#   dev/kafka-client-check/run.sh [number of kills, default 2] [options of check_stream.py]
# Environment: PORT (default 19092), CHECKPOINT_INTERVAL (default 2s),
# KILL_AFTER (least seconds a run lives, default 15), PYTHON (default a virtual environment made
# with requirements.txt in a temporary directory). Everything it writes is under a temporary directory; KEEP=1 leaves it there.
# Exit code: that of check_stream.py.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
millrace="$here/../../millrace"
model="$here/../../models/millrace-tiny"
num_kills="${1:-2}"
shift || true
port="${PORT:-19092}"
work="$(mktemp -d)"
broker= run= check=

finish() {
    local pid
    for pid in $check $run $broker; do
        kill "$pid" 2> /dev/null && wait "$pid" 2> /dev/null || true
    done
    if [[ -n "${KEEP:-}" ]]; then echo "logs and state are in $work"; else rm -rf "$work"; fi
}
trap finish EXIT

fail() {
    echo "kafka-client-check: $1" >&2
    [[ -z "${2:-}" ]] || tail -20 "$2" >&2
    exit 1
}

start_run() {
    MILLRACE_HOME="$work/home" "$millrace" run --bootstrap-servers "localhost:$port" --prompts prompts \
        --completions completions --dead-letters dead-letters --model "$model" --state "$work/state" \
        --checkpoint-interval "${CHECKPOINT_INTERVAL:-2s}" --max-num-seqs 16 >> "$work/run.log" 2>&1 &
    run=$!
}

completed_checkpoints() {
    compgen -G "$work/state/checkpoints/*/chk-*/_metadata" || true
}

await_new_checkpoint() { # returns within milliseconds of a checkpoint's completion; does not sleep, to be in time
    local file seen deadline=$((SECONDS + 60))
    seen="$(completed_checkpoints)"
    while ((SECONDS < deadline)); do
        for file in $(completed_checkpoints); do
            [[ "$seen" == *"$file"* ]] || return 0
        done
    done
    fail "no checkpoint was completed for 60 s:" "$work/run.log"
}

python="${PYTHON:-}"
if [[ -z "$python" ]]; then
    python3 -m venv "$work/venv"
    python="$work/venv/bin/python"
    "$python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
fi
MILLRACE_HOME="$work/home" "$millrace" --help > /dev/null # builds, if need be
MILLRACE_HOME="$work/home" "$millrace" broker --port "$port" --data "$work/broker" --partitions 2 --topic prompts \
    --topic completions --topic dead-letters > "$work/broker.log" 2>&1 &
broker=$!
for ((second = 0; second < 60; second++)); do
    grep -q "broker is up" "$work/broker.log" && break
    kill -0 "$broker" 2> /dev/null || fail "the broker did not start:" "$work/broker.log"
    sleep 1
done

start_run
"$python" "$here/check_stream.py" --bootstrap-servers "localhost:$port" "$@" &
check=$!
for ((kills = 0; kills < num_kills; kills++)); do
    sleep "$((${KILL_AFTER:-15} + RANDOM % 3)).$((RANDOM % 10))"
    if ((kills % 2 == 0)); then await_new_checkpoint; fi
    kill -0 "$check" 2> /dev/null || fail "the check had ended before kill $((kills + 1)); give more --num-requests"
    kill -0 "$run" 2> /dev/null || fail "the run ended by itself:" "$work/run.log"
    kill -9 "$run"
    wait "$run" 2> /dev/null || true
    echo "killed the run with -9 and started it again"
    start_run
done
status=0
wait "$check" || status=$?
check=
if ((status != 0)); then tail -20 "$work/run.log" >&2; fi
grep -h "going on from\|^starting at" "$work/run.log" || true
kill "$run" && wait "$run" || fail "the run did not stop cleanly on SIGTERM:" "$work/run.log"
run=
exit "$status"
