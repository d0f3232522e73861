# build.sh: what ./verify, ./test and .ci/run share; to be sourced. Works from any folder, asks the network for nothing
# once the packages are there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

# Those of packages.txt, or of another list beside it.
packages() { sed 's/#.*//' "$root/scripts/${1:-packages.txt}" | tr -s ' \t\n' '\n' | sed '/^$/d'; }

# install_packages [LIST]: installs the packages that dpkg does not know as installed.
install_packages() {
  if ! command -v dpkg-query > /dev/null; then
    say "attest: not a Debian system, nothing installed; scripts/${1:-packages.txt} names what is needed"
    return
  fi
  local missing=() package
  for package in $(packages "${1:-}"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo > /dev/null; then
      say "attest: missing packages and neither root nor sudo to install them: ${missing[*]}"
      exit 2
    fi
    as_root=(sudo)
  fi
  say "attest: installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
    say "attest: apt-get could not install ${missing[*]}: $(grep -m1 '^E:' "$log" || tail -n1 "$log")"
    rm -f "$log"
    exit 2
  fi
  rm -f "$log"
}

# build PRESET [TARGET...]: configures and builds into build/PRESET, quietly unless it fails.
build() {
  local preset=$1
  shift
  local launcher=() log=$root/build/$preset.log
  if command -v ccache > /dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  mkdir -p "$root/build"
  say "attest: building preset $preset (log in build/$preset.log)"
  (
    cd "$root"
    cmake --preset "$preset" "${launcher[@]}"
    cmake --build "build/$preset" ${1:+--target "$@"}
  ) > "$log" 2>&1 || {
    tail -n 40 "$log" >&2
    say "attest: the build of preset $preset failed"
    exit 2
  }
}

# One line: what of the release build is not run here, and why; nothing if all is.
left_out() {
  case $("$root/build/release/bin/attest" kernels) in
    *"cuda  not available: "*"not in this build"*) say "attest: left out: the CUDA kernel, because no nvcc was found; host only" ;;
    *"cuda  not available: "*) say "attest: left out: running the CUDA kernel, because there is no GPU; it was built" ;;
  esac
}
