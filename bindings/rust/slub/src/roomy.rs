// SPDX-License-Identifier: MIT
//! Room behind a structure of counts.

/// A libslub newer than this crate may have more to count than `T` has.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Roomy<T> {
    pub(crate) counts: T,
    more: [u64; 32],
}
