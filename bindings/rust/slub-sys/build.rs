// SPDX-License-Identifier: MIT
//! Finds libslub and tells the linker.
//!
//! `SLUB_LIB_DIR` names the folder that it lies in; without it pkg-config is
//! asked for `slub`.  With the feature `vendored` the sources in the crate are built
//! by cmake instead.  `SLUB_LINK` is `static` (libslub.a) or `shared`
//! (libslub.so); without it the archive is taken if there is one, so that the
//! program needs no library at run time.

use std::path::{Path, PathBuf};
use std::process::{exit, Command};
use std::{env, fs};

fn fail(what: &str) -> ! {
    eprintln!("slub-sys: {}", what);
    exit(1);
}

/// The folder that pkg-config names, if it knows libslub.
fn ask_pkg_config() -> Option<PathBuf> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program).args(["--variable=libdir", "slub"]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    match (output.status.success(), folder.trim()) {
        (true, folder) if !folder.is_empty() => Some(folder.into()),
        _ => None,
    }
}

fn run(program: &mut Command) {
    match program.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{:?}: {}", program, status)),
        Err(error) => fail(&format!(
            "{:?}: {}; the feature `vendored` needs cmake, make and a C compiler",
            program, error
        )),
    }
}

/// Builds libslub.a from the sources that the crate carries.
fn build_vendored() -> PathBuf {
    if env::var("HOST") != env::var("TARGET") {
        fail("the feature `vendored` does not cross-compile; SLUB_LIB_DIR names a libslub.a");
    }
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("libslub");
    let folder = Path::new(&env::var_os("OUT_DIR").unwrap()).join("libslub");
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".into());
    run(Command::new("cmake").arg("-S").arg(&source).arg("-B").arg(&folder));
    run(Command::new("cmake")
        .arg("--build")
        .arg(&folder)
        .args(["--target", "slub_static", "-j", &jobs]));
    folder
}

fn library_folder() -> PathBuf {
    if let Some(folder) = env::var_os("SLUB_LIB_DIR") {
        return fs::canonicalize(&folder).unwrap_or_else(|error| {
            fail(&format!("SLUB_LIB_DIR={}: {}", Path::new(&folder).display(), error))
        });
    }
    if env::var_os("CARGO_FEATURE_VENDORED").is_some() {
        return build_vendored();
    }
    ask_pkg_config().unwrap_or_else(|| {
        fail(
            "libslub not found. Set SLUB_LIB_DIR to the folder of libslub.a or libslub.so \
             (after `make`: the build folder), install it so that `pkg-config slub` works, \
             or build the one in the crate by its feature `vendored`",
        )
    })
}

/// `static` or `dylib`, as rustc calls them.
fn kind(folder: &Path) -> &'static str {
    let has = |name: &str| {
        if !folder.join(name).exists() {
            fail(&format!("there is no {} in {}", name, folder.display()));
        }
    };
    match env::var("SLUB_LINK").as_deref() {
        Ok("static") => {
            has("libslub.a");
            "static"
        }
        Ok("shared") => {
            has("libslub.so");
            "dylib"
        }
        Ok("") | Err(_) if folder.join("libslub.a").exists() => "static",
        Ok("") | Err(_) => {
            has("libslub.so");
            "dylib"
        }
        Ok(other) => fail(&format!("SLUB_LINK={}: valid are static and shared", other)),
    }
}

/// Are the sequences of src/inline.rs for this target?
fn has_inline() -> bool {
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && env::var_os("CARGO_CFG_SLUB_NO_INLINE").is_none()
        && env::var_os("CARGO_CFG_MIRI").is_none()
}

fn main() {
    println!("cargo:rustc-check-cfg=cfg(slub_inline)");
    if has_inline() {
        println!("cargo:rustc-cfg=slub_inline");
    }
    for name in ["SLUB_LIB_DIR", "SLUB_LINK", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        fail("libslub runs on Linux only");
    }
    let folder = library_folder();
    let kind = kind(&folder);
    let file = if kind == "static" { "libslub.a" } else { "libslub.so" };
    println!("cargo:rerun-if-changed={}", folder.join(file).display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib={}=slub", kind);
    // For build scripts of crates that depend on this one: DEP_SLUB_LIBDIR.
    println!("cargo:libdir={}", folder.display());
}
