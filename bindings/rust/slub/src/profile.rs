// SPDX-License-Identifier: MIT
//! The heap profile: which call stacks have allocated how much.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: slub::Slub = slub::Slub;
//!
//! slub::profile::start(1 << 10)?;               // about one sample in each KiB
//! let kept = vec![0u8; 1 << 20];
//! slub::profile::stop()?;
//! # #[cfg(feature = "std")] {
//! let path = std::env::temp_dir().join(format!("heap.{}", std::process::id()));
//! slub::profile::write(&path)?;                 // for `slub profile`
//! assert!(std::fs::metadata(&path).unwrap().len() > 0);
//! # std::fs::remove_file(&path).unwrap();
//! # }
//! # drop(kept);
//! # Ok::<(), slub::Error>(())
//! ```

use crate::error::Error;
use slub_sys as sys;

/// Samples allocations from now on, one in `bytes` on average; 0: as `SLUB_PROFILE` says, else
/// 512 KiB.
///
/// The profile begins empty, also if it was on.
///
/// # Errors
///
/// [`Error::OutOfMemory`]; [`Error::NoSpace`]: the per-CPU areas are full; [`Error::Busy`]:
/// another thread starts or stops it; [`Error::Other`]: `EINVAL`, more than 64 GiB; `EDEADLK`,
/// in a signal handler that interrupted the library.
pub fn start(bytes: usize) -> Result<(), Error> {
    // SAFETY: always allowed.
    Error::check(unsafe { sys::slub_profile_start(bytes) })
}

/// Samples no more.  The profile stays until the next [`start`].
///
/// # Errors
///
/// [`Error::Busy`] and `EDEADLK` as [`start`].
pub fn stop() -> Result<(), Error> {
    // SAFETY: always allowed.
    Error::check(unsafe { sys::slub_profile_stop() })
}

/// Writes the profile as it is now into a file, which is made or overwritten; `%p` in the name is
/// the process's number.
///
/// # Errors
///
/// [`Error::OutOfMemory`]; [`Error::Other`]: `EINVAL`, there was never a profile, or the name has
/// a zero in it; `ENAMETOOLONG`; or what the system says of the file, such as `ENOENT`.
#[cfg(feature = "std")]
pub fn write(path: impl AsRef<std::path::Path>) -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt;

    const EINVAL: i32 = 22;
    let path = std::ffi::CString::new(path.as_ref().as_os_str().as_bytes())
        .map_err(|_| Error::Other(EINVAL))?;
    // SAFETY: the path ends with a NUL.
    Error::check(unsafe { sys::slub_profile_write(path.as_ptr().cast()) })
}
