#!/usr/bin/env bash
# Installs axe-core in bin/, which the tests look at all pages with: one file, pinned by its
# checksum, and no part of what is shipped. Needs npm, or curl.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.14.1
sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
[ ! -s "bin/axe-core-$version.js" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(
	cd "$folder"
	npm pack --silent "axe-core@$version" > npm.log 2>&1 ||
		curl -fsSL -o "axe-core-$version.tgz" \
			"https://registry.npmjs.org/axe-core/-/axe-core-$version.tgz"
	tar -xzf "axe-core-$version.tgz" package/axe.min.js
	echo "$sum  package/axe.min.js" | sha256sum --check --quiet
)
mkdir -p bin
mv "$folder/package/axe.min.js" "bin/axe-core-$version.js"
