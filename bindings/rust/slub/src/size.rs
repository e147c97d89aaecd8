// SPDX-License-Identifier: MIT

use slub_sys as sys;

/// The largest size that costs no more than one of `bytes`; `None`: no block can be so large.
///
/// What can use more, such as a buffer that grows, asks for this much instead.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: slub::Slub = slub::Slub;
///
/// let bytes = slub::good_size(5000).unwrap();
/// let buffer = Vec::<u8>::with_capacity(bytes);
/// assert!(bytes >= 5000);
/// assert_eq!(slub::usable_size(&buffer[..]), bytes);
/// ```
pub fn good_size(bytes: usize) -> Option<usize> {
    // SAFETY: always allowed.
    Some(unsafe { sys::slub_good_size(bytes) }).filter(|&bytes| bytes > 0)
}

/// How many bytes the block has that begins at `*block`: as many as were asked for, or some more.
///
/// What begins elsewhere (on the stack, in a block's middle, in a vector without capacity) is a
/// mistake: it is answered as the option `on_error` says, so the program ends, or this is 0.
/// Only C code may use more than it asked for; for Rust it is a number to count with.
pub fn usable_size<T: ?Sized>(block: &T) -> usize {
    let block: *const T = block;
    // SAFETY: any pointer may be looked up, and what is borrowed is not freed meanwhile.
    unsafe { sys::slub_usable_size(block.cast()) }
}
