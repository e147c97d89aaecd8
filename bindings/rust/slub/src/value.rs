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
//! `man slub_value_read` lists the names.

use crate::Error;
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
    let kind = match value.kind {
        sys::SLUB_VALUE_BYTES => Kind::Bytes,
        sys::SLUB_VALUE_COUNTER => Kind::Counter,
        _ => Kind::Number,
    };
    Ok(Value { number: value.number, kind })
}
