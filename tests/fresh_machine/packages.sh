# Sourced by tests/fresh_machine/run, after machine.sh: the packages that the machine has, and where
# it gets others from.
#   purge_packages         purges the packages that tools/install_dependencies.sh names, and the
#                          packages that came with them
#   use_package_cache      the machine installs from $packages alone. Where a package is missing
#                          there, the archive delivers all: ten minutes at most, then all is skipped

# Packages that were installed because of these go too. Compilers and headers among them go even if
# other packages need them.
purge_packages() {
  # No package may start or stop a service.
  printf '#!/bin/sh\nexit 101\n' >"$machine/usr/sbin/policy-rc.d"
  chmod +x "$machine/usr/sbin/policy-rc.d"
  # The next three are lists of names in order, the last one with more columns.
  local named installed came
  installed=$(as root dpkg-query -W \
    -f '${db:Status-Abbrev} ${Package} ${Section} ${Priority}\n' | sed -n 's/^ii  *//p' | sort -u)
  named=$(tools/install_dependencies.sh --names --sanitizers | sort -u |
    join - <(cut -d ' ' -f 1 <<<"$installed"))
  came=$(as root apt-cache depends --recurse --installed --no-recommends --no-suggests \
    --no-conflicts --no-breaks --no-replaces --no-enhances $named |
    sed -n 's/^\([a-z0-9][^: ]*\).*/\1/p' | sort -u | join - <(echo "$installed") |
    awk '$3 != "required" && $3 != "important" && $1 != "apt" && $1 != "ca-certificates"')
  quietly as root apt-mark auto $(cut -d ' ' -f 1 <<<"$came")
  quietly as root env DEBIAN_FRONTEND=noninteractive apt-get purge --autoremove -y -qq \
    -o Dpkg::Use-Pty=0 $named $(awk '$2 ~ /devel$/ { print $1 }' <<<"$came")
  echo "purged $(grep -c '^Removing ' "$work/log") packages"
  local program
  for program in git cc c++ cmake ninja ccache python3; do
    if as root sh -c "command -v $program"; then
      echo "fresh_machine: the machine still has $program" >&2
      return 1
    fi
  done
}

needed_packages() { tools/install_dependencies.sh --names && echo sudo; }

# Succeeds if the machine could install all that it needs from its present sources.
can_install() {
  as root apt-get install -qq -s --no-install-recommends $(needed_packages) >"$work/log" 2>&1
}

# The index by which apt reads a folder of packages.
index_packages() {
  local package
  for package in "$1"/*.deb; do
    dpkg-deb --field "$package"
    printf 'Filename: %s\nSize: %s\nSHA256: %s\n\n' "$(basename "$package")" \
      "$(stat -c %s "$package")" "$(sha256sum "$package" | cut -d ' ' -f 1)"
  done
}

# Seconds, at least one: for timeout, 0 is no limit.
left_until() { echo $(($1 > SECONDS ? $1 - SECONDS : 1)); }

# Fills the cache from the sources that the machine came with.
fill_package_cache() {
  local end=$((SECONDS + 600))
  local patient=(-o Acquire::Retries=3 -o Acquire::http::Timeout=30)
  rm -f "$packages/Packages"
  mkdir -p "$packages/fetched/partial"
  find "$packages" -maxdepth 1 -name '*.deb' -exec mv -t "$packages/fetched" {} +
  until as root timeout "$(left_until $end)" apt-get update -qq "${patient[@]}" \
      -o APT::Update::Error-Mode=any &&
    { can_install || { tail -n 50 "$work/log" >&2 && return 1; }; } &&
    as root timeout "$(left_until $end)" apt-get install -y -qq --download-only "${patient[@]}" \
      --no-install-recommends -o "Dir::Cache::Archives=$package_folder/fetched" \
      $(needed_packages); do
    if [ "$(left_until $end)" -lt 30 ]; then
      echo
      echo "!!! fresh_machine: SKIPPED: the archive did not deliver all packages in ten minutes."
      echo "!!! Nothing was tried out. The next run continues with what has come."
      echo
      exit 0
    fi
    echo "fresh_machine: the archive failed; trying again"
    sleep 10
  done
  mv "$packages"/fetched/*.deb "$packages"
  rm -r "$packages/fetched"
  index_packages "$packages" >"$packages/Packages"
}

use_package_cache() {
  local sources=$machine/etc/apt/sources
  mkdir "$sources.kept"
  mv "$sources".list* "$sources.kept"
  echo "deb [trusted=yes] file:$package_folder ./" >"$work/cache.list"
  cp "$work/cache.list" "$sources.list"
  if [ -e "$packages/Packages" ] && quietly as root apt-get update -qq && can_install; then
    return 0
  fi
  rm "$sources.list"
  cp -r "$sources.kept/." "$machine/etc/apt"
  fill_package_cache
  rm -r "$sources".list*
  cp "$work/cache.list" "$sources.list"
}
