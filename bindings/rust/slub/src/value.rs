// SPDX-License-Identifier: MIT
//! What the library counts, by name: the numbers of `slub stats --json`.
//!
//! ```
//! let block = vec![0u8; 3 << 20];
//!
//! assert!(slub::value::read("heap.large_bytes")?.number >= 3 << 20);
//! assert!(slub::value::read("caches.malloc-64.nothing").is_err());
//! drop(block);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! `man slub_value_read` lists the names; [`for_each`] visits all there are, and [`json`] has them
//! in one text.
//!
//! ```
//! let mut largest = (String::new(), 0);
//! slub::value::for_each(|name, value| {
//!     if name.ends_with(".bytes") && value.number > largest.1 {
//!         largest = (name.into(), value.number);
//!     }
//! })?;
//! assert!(largest.0.starts_with("caches.malloc-"));
//! assert!(slub::value::json()?.contains("\"kind\": \"stats\""));
//! # Ok::<(), slub::Error>(())
//! ```

use crate::panics::Kept;
use crate::Error;
use core::slice;
use core::str;
use slub_sys as sys;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes at the moment.
    Bytes,
    /// Another number at the moment.
    Number,
    /// Counted since the start, in 32 bits that begin anew.
    Counter,
}

/// A number and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The number.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
}

/// More than the longest name.
const NAME_BYTES: usize = 96;
const ENOENT: i32 = 2;

/// A value, without allocating: an estimate while others use the heap.
///
/// # Errors
///
/// By [`Error::errno`]: `ENOENT`, there is no such value, or no such cache; `EDEADLK`,
/// called by a signal handler that interrupted the allocator.
pub fn read(name: &str) -> Result<Value, Error> {
    let mut bytes = [0u8; NAME_BYTES];
    let mut value = sys::slub_value::default();

    if name.len() >= NAME_BYTES || name.bytes().any(|byte| byte == 0) {
        return Err(Error::from_errno(ENOENT));
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the name ends with a NUL.
    Error::check(unsafe { sys::slub_value_read(bytes.as_ptr().cast(), &mut value) })?;
    Ok(Value::from_raw(&value))
}

impl Value {
    fn from_raw(value: &sys::slub_value) -> Self {
        let kind = match value.kind {
            sys::SLUB_VALUE_BYTES => Kind::Bytes,
            sys::SLUB_VALUE_COUNTER => Kind::Counter,
            _ => Kind::Number,
        };
        Value { number: value.number, kind }
    }
}

/// Calls `visit` for each value that there is, with its name.
///
/// A panic in it ends the walk, and goes on in the caller of this; without the feature `std` it
/// aborts.
///
/// # Errors
///
/// [`Error::OutOfMemory`]; `EDEADLK` as [`read`].
pub fn for_each<F: FnMut(&str, Value)>(visit: F) -> Result<(), Error> {
    unsafe extern "C" fn call<F: FnMut(&str, Value)>(
        name: *const sys::c_char,
        value: *const sys::slub_value,
        arg: *mut sys::c_void,
    ) -> sys::c_int {
        // SAFETY: the name and the value live during the call, and arg the closure.
        let (name, value, (visit, kept)) = unsafe {
            let length = (0..).take_while(|&i| *name.add(i) != 0).count();
            (slice::from_raw_parts(name.cast(), length), &*value, &mut *arg.cast::<(F, Kept)>())
        };
        let name = str::from_utf8(name).unwrap_or("?");
        kept.call(1, || {
            visit(name, Value::from_raw(value));
            0
        })
    }
    let mut with = (visit, Kept::default());
    let arg: *mut (F, Kept) = &mut with;
    // SAFETY: the closure lives during the call.
    let result = unsafe { sys::slub_value_for_each(Some(call::<F>), arg.cast()) };
    with.1.resume();
    Error::check(result.min(0))
}

/// What `slub stats --json` prints.
///
/// # Errors
///
/// [`Error::OutOfMemory`]; `EDEADLK` as [`read`].
#[cfg(feature = "std")]
pub fn json() -> Result<std::string::String, Error> {
    let mut text = std::vec::Vec::<u8>::new();
    loop {
        // SAFETY: the text has room for that many bytes.
        let bytes = unsafe { sys::slub_stats_json(text.as_mut_ptr().cast(), text.len()) };
        let bytes = match usize::try_from(bytes) {
            Ok(bytes) => bytes,
            Err(_) => return Err(Error::from_errno(-bytes as i32)),
        };
        if bytes < text.len() {
            text.truncate(bytes);
            return Ok(std::string::String::from_utf8_lossy(&text).into_owned());
        }
        // Caches may come in between.
        text.resize(bytes + 4096, 0);
    }
}
