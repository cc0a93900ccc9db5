#!/usr/bin/env bash
# Installs the packages that building and testing Gangway needs, on Debian 12, as root or through
# sudo. Returns at once if all are installed.
#   tools/install_dependencies.sh                for building and running the tool
#   tools/install_dependencies.sh --tests        and for ./check
#   tools/install_dependencies.sh --sanitizers   and for the rest of .ci/run
# With --progress before these, apt's machine-readable progress is printed too (tools/progress.sh).
# With --names the packages are printed, one a line, and nothing is installed.
set -euo pipefail

progress=()
names=
if [ "${1:-}" = --names ]; then
  names=yes
  shift
elif [ "${1:-}" = --progress ]; then
  # Not descriptor 1: apt closes the one on which it reports before it runs packages' scripts, and
  # ccache's script fails without a standard output.
  progress=(-o APT::Status-Fd=3)
  shift
fi
wanted=${1:-}

packages=(
  g++ cmake ninja-build ccache mold git
  pkg-config  # Cap'n Proto's CMake files find its libraries with it.
  libboost-fiber-dev libcapnp-dev capnproto libtbb-dev libdnnl-dev  # kj-tls: of libcapnp-dev
  libssl-dev
  libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
  bible-kjv bible-kjv-text  # the text that ./quickstart trains on
)
if [ "$wanted" = --tests ] || [ "$wanted" = --sanitizers ]; then
  packages+=(libgtest-dev libgmock-dev libbenchmark-dev clang-format-19 valgrind
    python3 python3-jsonschema graphviz  # They read what Gangway writes for other tools.
    chromium chromium-driver  # They open its page (tests/browser).
    nodejs)  # It runs the tests of the page's modules (tests/page).
fi
if [ "$wanted" = --sanitizers ]; then
  packages+=(clang-19 clang-tidy-19 libclang-rt-19-dev llvm-19 xz-utils)
fi
if [ "$names" ]; then
  printf '%s\n' "${packages[@]}"
  exit
fi

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "install_dependencies: not root and no sudo: run $0 as root once" >&2
    return 1
  fi
}

install_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}"
  as_root apt-get update -qq
  # Descriptor 3 is opened behind sudo, which closes all descriptors above 2.
  as_root env DEBIAN_FRONTEND=noninteractive sh -c 'exec "$@" 3>&1' sh \
    apt-get install -y -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "${progress[@]}" \
    --no-install-recommends "${missing[@]}" </dev/null
}

# Sanitizers misread fiber switches unless Boost.Fiber and Boost.Context are compiled with them.
# These builds therefore compile both from Debian's source package. 1.81 is the one in Debian 12
# that knows TSan. It is found through the deb-src twins of the sources that this machine already
# uses.
fetch_boost() {
  local target=${GANGWAY_BOOST_SOURCE:-${XDG_CACHE_HOME:-$HOME/.cache}/gangway/boost-1.81}
  [ ! -e "$target/complete" ] || return 0
  echo "fetching the sources of Boost 1.81 into $target"
  local work
  work=$(mktemp -d)
  mkdir -p "$work"/{parts,lists/partial,tree} "$target"
  local list
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -e "$list" ]; then
      sed -n 's/^deb /deb-src /p' "$list" >"$work/parts/$(basename "$list" .list).list"
    fi
  done
  for list in /etc/apt/sources.list.d/*.sources; do
    if [ -e "$list" ]; then
      sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")"
    fi
  done
  local apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts"
    -o Dir::State::Lists="$work/lists" -o APT::Sandbox::User="$(id -un)")
  "${apt[@]}" update
  (cd "$work" && "${apt[@]}" source --download-only boost1.81)
  tar -xf "$work"/boost1.81_*.orig.tar.xz -C "$work/tree" --strip-components=1 --wildcards \
    'boost/libs/*/include/*' 'boost/libs/fiber/src/*' 'boost/libs/context/src/*'
  mkdir -p "$target/include" "$target/fiber" "$target/context"
  local include
  for include in "$work"/tree/libs/*/include "$work"/tree/libs/numeric/*/include; do
    cp -r "$include/." "$target/include"
  done
  cp -r "$work/tree/libs/fiber/src/." "$target/fiber"
  cp -r "$work/tree/libs/context/src/." "$target/context"
  touch "$target/complete"
  rm -rf "$work"
}

install_packages
if [ "$wanted" = --sanitizers ]; then
  fetch_boost
fi
