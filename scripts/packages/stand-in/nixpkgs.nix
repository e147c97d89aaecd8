# SPDX-License-Identifier: MIT
# The few names of nixpkgs that packaging/nix/default.nix uses, with this system's programs behind
# them: nix-build --arg pkgs 'import ./nixpkgs.nix' packaging/nix
let
  system-prefix = "/usr";
  phases = ''
    export PATH=/usr/local/bin:/usr/bin:/bin HOME=$TMPDIR
    cp -r "$src" source
    chmod -R u+w source
    cmake -S source -B build -DCMAKE_INSTALL_PREFIX="$out" -DCMAKE_INSTALL_LIBDIR=lib $cmakeFlags
    cmake --build build -j 2
    cmake --install build
    [ -z "$doInstallCheck" ] || eval "$installCheckPhase"
  '';
in
{
  stdenv.mkDerivation = given: derivation {
    name = "${given.pname}-${given.version}";
    system = builtins.currentSystem;
    builder = "/bin/bash";
    args = [ "-ec" phases ];
    inherit (given) src cmakeFlags doInstallCheck installCheckPhase;
  };
  lib = {
    cleanSource = path: path;
    licenses.mit = { spdxId = "MIT"; };
  };
  cmake = system-prefix;
  pkg-config = system-prefix;
  python3 = system-prefix;
  ncurses = system-prefix;
  elfutils = system-prefix;
  zlib = system-prefix;
}
