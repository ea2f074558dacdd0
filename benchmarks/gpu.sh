#!/bin/sh
# Time a training step and beam search of `base` on one GPU, on JAX and on PyTorch, and print a table.
#
#   sh benchmarks/gpu.sh               # sizes for a GPU with 80 GB
#   TOKENS=6272 sh benchmarks/gpu.sh   # smaller batches
#   sh benchmarks/gpu.sh --rehearse    # the same commands with tiny sizes on the CPU
#
# It has not run on a GPU yet. It is meant to take less than eight minutes there.
# PYTHON is the interpreter (default: python), and BACKENDS the backends (default: jax torch).
# The line of a run that fails is the last line that it printed.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
train="--size base --tokens ${TOKENS:-25088} --steps 5 --repeats 3"
search="--size base --repeats 3"
if [ "${1:-}" = --rehearse ]; then
    export CUDA_VISIBLE_DEVICES='' JAX_PLATFORMS=cpu
    train="--size tiny --tokens 64 --length 4 --steps 1 --repeats 1"
    search="--size tiny --repeats 1 --sentences 2 --batch-size 2 --source-length 3 --output-length 4"
fi

# Print the rows of one benchmark's table: time_run WORK SCRIPT OPTION...
time_run() {
    work=$1 script=$2 begin=$(date +%s)
    shift 2
    if "${PYTHON:-python}" "benchmarks/$script" "$@" >"$log" 2>&1; then
        seconds=$(($(date +%s) - begin))
        sed -n '/^|---/,$ s/^| \(.*\) |$/\1/p' "$log" | while IFS='|' read -r first second _ share memory _; do
            case $script in
                train.py) echo "| $work | ${first% }:${second% } tokens/s |$share|$memory| $seconds |" ;;
                *) echo "| $work |$second| | | $seconds |" ;;
            esac
        done
    else
        echo "| $work | failed: $(tail -n 1 "$log") | | | |"
    fi
}

echo "| Work | System and rate | Of matrix products | MiB of a step | Seconds of the run |"
echo "|---|---|---|---|---|"
for backend in ${BACKENDS:-jax torch}; do
    export KERAS_BACKEND="$backend"
    peers="--peers"
    [ "$backend" = torch ] && peers="--peers nn_transformer"
    for precision in float32 mixed_bfloat16; do
        # shellcheck disable=SC2086
        time_run "training, $precision" train.py $train --precision $precision $peers
    done
    for beam in 1 4; do
        # shellcheck disable=SC2086
        time_run "search, bfloat16, beam $beam" decode.py $search --precision bfloat16 --beam-size $beam --peers
    done
done
