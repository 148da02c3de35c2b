#!/usr/bin/env bash
# Installs the official webhook libraries, pinned, into target/oracle, where the tests find them.
# A second run does nothing; runs side by side wait for one another.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../../../target}/oracle
mkdir -p "$target"

exec 9> "$target/.lock"
flock 9

# The scripts stand beside the libraries, for that is where Node.js looks for them.
# Each is moved into its place whole: another test may be reading it.
for file in verify_outbound.mjs verify_outbound.py sign_inbound.mjs sign_inbound.py package.json package-lock.json requirements.txt; do
  cp "$here/$file" "$target/.new"
  mv "$target/.new" "$target/$file"
done
cd "$target"

stamp=$(cat package-lock.json requirements.txt | sha256sum)
if [ "$(cat .stamp 2>/dev/null)" = "$stamp" ]; then exit 0; fi

npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --requirement requirements.txt
echo "$stamp" > .stamp
