// SPDX-License-Identifier: MIT
//! The library's options, read and changed while the program runs.
//!
//! What `SLUB_NAME=VALUE` sets at the start, by its name without `SLUB_`.
//!
//! ```
//! let mut space = [0; 64];
//!
//! slub::option::set("retain", "8M")?;
//! assert_eq!(slub::option::get("retain", &mut space)?, "8388608");
//! // This one counts at the start only.
//! assert_eq!(slub::option::set("fastpath", "lock").unwrap_err().errno(), 1);
//! # Ok::<(), slub::Error>(())
//! ```

use crate::Error;
use core::str;
use slub_sys as sys;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const EILSEQ: i32 = 84;
/// More than the longest name, and the longest value that an option takes when it is set.
const WORD_BYTES: usize = 64;

/// With a NUL behind it.
fn c_word(word: &str, error: i32) -> Result<[u8; WORD_BYTES], Error> {
    let mut bytes = [0; WORD_BYTES];
    if word.len() >= WORD_BYTES || word.bytes().any(|byte| byte == 0) {
        return Err(Error::from_errno(error));
    }
    bytes[..word.len()].copy_from_slice(word.as_bytes());
    Ok(bytes)
}

/// What an option is, as text in `space`; a text that was not given is empty.
///
/// # Errors
///
/// By [`Error::errno`]: `ENOENT`, there is no such option; `ERANGE`, `space` is too
/// small (512 bytes are enough for each); `EILSEQ`, the text is not UTF-8.
pub fn get<'a>(name: &str, space: &'a mut [u8]) -> Result<&'a str, Error> {
    let name = c_word(name, ENOENT)?;
    // SAFETY: the name ends with a NUL, and space has that length.
    let result = unsafe {
        sys::slub_option_get(name.as_ptr().cast(), space.as_mut_ptr().cast(), space.len())
    };
    Error::check(result)?;
    let length = space.iter().position(|&byte| byte == 0).unwrap_or(0);
    str::from_utf8(&space[..length]).map_err(|_| Error::from_errno(EILSEQ))
}

/// Changes an option, to a value as in the environment.
///
/// # Errors
///
/// Nothing is changed then.  By [`Error::errno`]: `ENOENT`, there is no such option;
/// `EPERM`, it counts at the start only; `EINVAL`, it cannot have that value; `EBUSY`,
/// another thread sets one just now; `EDEADLK`, called by a signal handler.
pub fn set(name: &str, value: &str) -> Result<(), Error> {
    let name = c_word(name, ENOENT)?;
    let value = c_word(value, EINVAL)?;
    // SAFETY: both end with a NUL.
    Error::check(unsafe { sys::slub_option_set(name.as_ptr().cast(), value.as_ptr().cast()) })
}
