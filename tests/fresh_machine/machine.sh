# Sourced by tests/fresh_machine/run and debian_13: machines that hold a root file system in memory
# over folders that stay as they are. A script that sources this ends by itself in a namespace of
# mounts and processes, with which both end.
#   in_namespace "$0" "$@"    runs the script again within, with $work, a folder in memory
#   mount_machine LOWER NEW   the machine at $machine: folders LOWER (separated by ":"), all changes
#                             in $work/NEW
#   as USER COMMAND...        runs it on the machine, in the user's home, as after a login
#   start_machine LOWER USER  the machine over LOWER, with USER, who has the compiler cache and, in
#                             the folder gangway, a clone of the last commit
#   try_out LOWER USER        runs ./quickstart and the installed package's example there
# $compiled is the folder of the compiler cache. $packages, where set, is a folder of packages; the
# machine has it as $package_folder.
packages=
cache_size=$(ccache --get-config max_size 2>/dev/null || echo 5G)
package_folder=/var/cache/gangway_packages

in_namespace() {
  if [ "$(id -u)" != 0 ]; then
    echo "fresh_machine: run it as root: it mounts file systems" >&2
    exit 1
  fi
  if [ -z "${GANGWAY_FRESH_MACHINE:-}" ]; then
    local status=0
    work=$(mktemp -d)
    GANGWAY_FRESH_MACHINE=$work unshare --mount --pid --fork --kill-child --mount-proc "$@" \
      </dev/null &
    within=$!
    # unshare ignores all other signals. Processes and mounts of the namespace end with it.
    trap 'kill -KILL $within 2>/dev/null && wait $within 2>/dev/null || true; rmdir "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    wait $within || status=$?
    exit $status
  fi
  work=$GANGWAY_FRESH_MACHINE
  machine=$work/machine
  mount -t tmpfs -o mode=755 tmpfs "$work"
  git clone -q --depth 1 "file://$PWD" "$work/clone"
}

mount_machine() {
  rm -rf "${work:?}/$2" "$work/$2.work"
  mkdir -p "$work/$2" "$work/$2.work" "$machine"
  mount -t overlay overlay "$machine" -o "lowerdir=$1,upperdir=$work/$2,workdir=$work/$2.work"
  # The path may be a mount of its own, or lead to one; the overlay has neither.
  rm -f "$machine/etc/resolv.conf"
  cp -L /etc/resolv.conf "$machine/etc/resolv.conf"
  mount -t proc proc "$machine/proc"
  mount --rbind /dev "$machine/dev"
  local folder
  # Folders in which a new machine has nothing.
  for folder in dev/shm tmp root home opt usr/local; do
    mount -t tmpfs -o mode=755 tmpfs "$machine/$folder"
  done
  chmod 1777 "$machine/tmp" "$machine/dev/shm"
  if [ "$packages" ]; then
    mkdir -p "$machine$package_folder"
    mount --bind "$packages" "$machine$package_folder"
  fi
}

home_of() { chroot "$machine" getent passwd "$1" | cut -d : -f 6; }

as() {
  local user=$1 variable
  shift
  local variables=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    "HOME=$(home_of "$user")" "USER=$user" LANG=C.UTF-8
    "CCACHE_MAXSIZE=$cache_size")
  for variable in http_proxy https_proxy no_proxy; do
    if [ -n "${!variable:-}" ]; then
      variables+=("$variable=${!variable}")
    fi
  done
  chroot --userspec="$user:$user" --groups="$user" "$machine" env -i "${variables[@]}" \
    sh -c 'cd && exec "$@"' sh "$@"
}

# Runs commands that prepare a try-out, and are not tried out themselves.
quietly() {
  "$@" >"$work/log" 2>&1 || {
    tail -n 50 "$work/log" >&2
    return 1
  }
}

add_user() {
  quietly as root useradd --create-home "$1"
  quietly as root apt-get update -qq
  quietly as root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends sudo
  echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$machine/etc/sudoers.d/$1"
}

# Binds the compiler cache for user $1. It keeps what root compiles. Files that another user
# compiles go to a layer in memory, so that all files of the cache still belong to root.
bind_compiled() {
  local home folder
  home=$machine$(home_of "$1")
  folder=$home/.cache/ccache
  as "$1" mkdir -p .cache/ccache
  if [ "$1" = root ]; then
    mount --bind "$compiled" "$folder"
  else
    mkdir -p "$work/compiled" "$work/compiled.work"
    mount -t overlay overlay "$folder" \
      -o "lowerdir=$compiled,upperdir=$work/compiled,workdir=$work/compiled.work"
    find "$folder" -type d -exec chown --reference="$home" {} +
  fi
}

build_example() {
  as "$1" env -C gangway cmake --build build
  as "$1" env -C gangway cmake -DBUILD="$(home_of "$1")/gangway/build" -DCXX=c++ \
    -DEXAMPLE="$(home_of "$1")/gangway/tests/package/example" -P tests/package/check_package.cmake
}

start_machine() {
  mount_machine "$1" tried
  if [ "$2" != root ]; then
    add_user "$2"
  fi
  bind_compiled "$2"
  local home
  home=$machine$(home_of "$2")
  cp -r "$work/clone" "$home/gangway"
  chown -R --reference="$home" "$home/gangway"
}

try_out() {
  start_machine "$@"
  stage "quickstart as $2" as "$2" env -C gangway ./quickstart --steps 5
  stage "example as $2" build_example "$2"
  umount --recursive "$machine"
}
