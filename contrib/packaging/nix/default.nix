# SPDX-License-Identifier: MIT
# nix-build contrib/packaging/nix
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "libslub";
  version = builtins.head (builtins.match ".*SLUB_VERSION_STRING \"([^\"]*)\".*"
    (builtins.readFile ../../../include/slub/version.h));
  src = pkgs.lib.cleanSource ../../..;

  nativeBuildInputs = [ pkgs.cmake pkgs.pkg-config pkgs.python3 ];
  buildInputs = [ pkgs.ncurses pkgs.elfutils pkgs.zlib ];
  cmakeFlags = [ "-DSLUB_BUILD_TESTS=OFF" "-DSLUB_BUILD_BENCH=OFF" ];

  doInstallCheck = true;
  installCheckPhase = ''
    $out/bin/slub run -- ${pkgs.python3}/bin/python3 -c 'print(len([bytes(i) for i in range(20000)]))'
  '';

  meta = {
    description = "Memory allocator built like the Linux kernel's SLUB";
    license = pkgs.lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "slub";
  };
}
