#!/bin/sh
# Turns a shot into splats on machines without a window: views on one, the fit on another, a check at the end.
#
#     fit_shot.sh SHOT.blend FOLDER capture    renders the views; goes on where it was broken off
#     fit_shot.sh SHOT.blend FOLDER fit        fits splats to them, puts them into FOLDER/splats.blend, writes FOLDER/splats.ply
#     fit_shot.sh SHOT.blend FOLDER check      fails if the held-out views are worse than LEAST_DB
#
# BLENDER, CAPTURE_SETTINGS, FIT_SETTINGS and LEAST_DB can be set from outside. Exit codes: docs/pipelines.md.
set -eu

shot=$1 folder=$2 part=$3
: "${BLENDER:=blender}" "${CAPTURE_SETTINGS:=--preset standard --hold-out 8}" "${FIT_SETTINGS:=--preset standard}" "${LEAST_DB:=25}"

# Settings are several words each: they are split on purpose.
case $part in
capture)
    "$BLENDER" --background "$shot" --command splatfit capture \
        --out "$folder/capture" --json "$folder/capture.json" $CAPTURE_SETTINGS
    ;;
fit)
    resume=
    if [ -f "$folder/run/checkpoint.pt" ] && [ ! -f "$folder/run/splats.ply" ]; then
        resume=--resume # the last job on this run was ended before its time
    fi
    "$BLENDER" --background "$shot" --command splatfit fit --use-capture $resume \
        --capture "$folder/capture" --run "$folder/run" --out "$folder/splats.blend" --hide-originals \
        --json "$folder/fit.json" $FIT_SETTINGS
    "$BLENDER" --background "$folder/splats.blend" --command splatfit export --out "$folder/splats.ply"
    ;;
check)
    python3 - "$folder/fit.json" "$LEAST_DB" <<'PYTHON'
import json
import sys

report = json.load(open(sys.argv[1], encoding="utf-8"))
quality, least = report["engine.psnr"], float(sys.argv[2])
if quality is None:
    sys.exit("no view was held out: capture with --hold-out 8, say")
print(f"{report['splats']} splats, {quality:.2f} dB on held-out views")
sys.exit(0 if quality >= least else f"below {least:g} dB")
PYTHON
    ;;
*)
    echo "unknown part: $part" >&2
    exit 2
    ;;
esac
