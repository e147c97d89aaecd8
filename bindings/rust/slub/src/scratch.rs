// SPDX-License-Identifier: MIT
//! Memory of one request, which ends with it in a few calls of `free`.
//!
//! ```
//! use std::fmt::Write;
//!
//! let request = slub::Scratch::new();
//! let words = request.alloc_slice(&[1, 2, 3])?;
//! words[0] = 7;
//! let mut page = request.text();
//! write!(page, "<p>{}</p>", words[0]).unwrap();
//! assert_eq!(page.finish(), "<p>7</p>");
//! drop(request);                    // all of it goes back
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! It hands out pieces of blocks, one behind the other.  An [`Arena`](crate::Arena) has slabs of
//! its own for each size, and to empty it takes a look at each slab of the heap; here it takes a
//! `free` for each block, whatever else the heap holds.  In return nothing is freed one by one,
//! and one thread at a time uses it.
//!
//! The thread's [`Group`](crate::Group) pays for the blocks.  A request that it refuses is an
//! error, and never ends the program.  Values are not dropped.

use crate::bucket::nothing;
use crate::error::Error;
use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::mem::{align_of, size_of};
use core::ptr::{self, NonNull};
use core::{slice, str};
use slub_sys as sys;

/// The first block; each further one is twice as large, up to the largest that lies in a slab.
const FIRST_BYTES: usize = 1 << 10;
const BLOCK_BYTES_MAX: usize = 32 << 10;

/// The beginning of each block.
struct Head {
    older: *mut Head,
    bytes: usize,
}

/// Pieces of blocks, which are freed together.
///
/// A new one has no memory.  It may go to another thread with all that is in it.
pub struct Scratch {
    newest: Cell<*mut Head>,
    next: Cell<*mut u8>,
    end: Cell<*mut u8>,
}

// SAFETY: the blocks are malloc's, which any thread may free; nothing in them is used without a
// borrow, or dropped.
unsafe impl Send for Scratch {}

impl Scratch {
    /// No memory yet.
    pub const fn new() -> Self {
        Scratch {
            newest: Cell::new(ptr::null_mut()),
            next: Cell::new(ptr::null_mut()),
            end: Cell::new(ptr::null_mut()),
        }
    }

    /// A piece of memory, which stays until the scratch is cleared or dropped.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    #[inline]
    pub fn alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        match self.take(layout) {
            Some(piece) => Ok(piece),
            None => self.grow(layout),
        }
    }

    /// Out of the newest block, if there is room.
    #[inline]
    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let next = self.next.get();
        let room = self.end.get() as usize - next as usize;
        let skip = (next as usize).wrapping_neg() & (layout.align() - 1);
        if skip > room || layout.size() > room - skip {
            return None;
        }
        let piece = next.wrapping_add(skip);
        self.next.set(piece.wrapping_add(layout.size()));
        NonNull::new(piece)
    }

    #[cold]
    fn grow(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        let least = (size_of::<Head>() + layout.align())
            .checked_add(layout.size())
            .ok_or(Error::OutOfMemory)?;
        // SAFETY: a block of this scratch begins with its head.
        let last = unsafe { self.newest.get().as_ref() }.map_or(FIRST_BYTES / 2, |h| h.bytes);
        let bytes = (last * 2).clamp(FIRST_BYTES, BLOCK_BYTES_MAX).max(least);
        // SAFETY: any size may be asked for.
        let block = unsafe { sys::malloc(bytes) }.cast::<u8>();
        if block.is_null() {
            return Err(Error::OutOfMemory);
        }
        // SAFETY: the block has that many bytes, and is aligned to 16.
        unsafe {
            block.cast::<Head>().write(Head { older: self.newest.get(), bytes });
            self.newest.set(block.cast());
            self.next.set(block.add(size_of::<Head>()));
            self.end.set(block.add(bytes));
        }
        Ok(self.take(layout).expect("a new block has room"))
    }

    /// Makes the last piece longer, where it lies.
    fn extend(&self, end: *mut u8, more: usize) -> bool {
        let fits = self.next.get() == end && more <= self.end.get() as usize - end as usize;
        if fits {
            self.next.set(end.wrapping_add(more));
        }
        fits
    }

    /// Where it is, if it shrinks or is the last piece; else elsewhere.
    ///
    /// # Safety
    ///
    /// `piece` is of this scratch, with `layout`, and is used no more after success; `bytes` is
    /// small enough for a layout.
    #[cfg(feature = "allocator-api2")]
    pub(crate) unsafe fn resize(
        &self,
        piece: NonNull<u8>,
        layout: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, Error> {
        let end = piece.as_ptr().wrapping_add(layout.size());
        if bytes <= layout.size() || self.extend(end, bytes - layout.size()) {
            return Ok(piece);
        }
        // SAFETY: as the caller promises.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let moved = self.alloc_layout(new)?;
        // SAFETY: two pieces, and the new one is longer.
        unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), moved.as_ptr(), layout.size()) };
        Ok(moved)
    }

    /// Puts `value` there; it is not dropped.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and `value` is dropped.
    #[allow(clippy::mut_from_ref)] // each call returns another piece
    pub fn alloc<T>(&self, value: T) -> Result<&mut T, Error> {
        let piece = self.alloc_layout(Layout::new::<T>())?.cast::<T>().as_ptr();
        // SAFETY: a new piece for a T.
        unsafe {
            piece.write(value);
            Ok(&mut *piece)
        }
    }

    /// Copies a slice.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> Result<&mut [T], Error> {
        let piece = self.alloc_layout(Layout::for_value(values))?.cast::<T>().as_ptr();
        // SAFETY: a new piece, as long as the slice and aligned as its elements.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), piece, values.len());
            Ok(slice::from_raw_parts_mut(piece, values.len()))
        }
    }

    /// Copies a string.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_str(&self, text: &str) -> Result<&mut str, Error> {
        let bytes = self.alloc_slice(text.as_bytes())?;
        // SAFETY: a copy of what is UTF-8.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }

    /// A slice of what the iterator yields, which knows its length.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], before the iterator is asked.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_iter<T, I>(&self, values: I) -> Result<&mut [T], Error>
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: ExactSizeIterator,
    {
        let values = values.into_iter();
        let layout = Layout::array::<T>(values.len()).map_err(|_| Error::OutOfMemory)?;
        let (length, mut filled) = (values.len(), 0);
        let piece = self.alloc_layout(layout)?.cast::<T>().as_ptr();
        for value in values.take(length) {
            // SAFETY: there is room for `length`, and no more are taken.
            unsafe { piece.add(filled).write(value) };
            filled += 1;
        }
        // SAFETY: so many have been written.
        Ok(unsafe { slice::from_raw_parts_mut(piece, filled) })
    }

    /// A text that grows in the scratch; for `write!`.
    pub fn text(&self) -> Text<'_> {
        Text { scratch: self, start: NonNull::dangling(), length: 0, room: 0, failed: false }
    }

    /// Lets `make` fill the scratch, and keeps that together with the slice that it returns.
    ///
    /// For what outlives the function that made it: an answer on its way out, say.
    ///
    /// ```
    /// use slub::{Error, Scratch};
    ///
    /// let answer = Scratch::new().keep(|scratch| Ok::<_, Error>(scratch.alloc_str("hello")?))?;
    /// assert_eq!(std::thread::spawn(move || answer.len()).join().unwrap(), 5);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `make`; the scratch is dropped then.
    pub fn keep<R, E>(self, make: R) -> Result<Kept, E>
    where
        R: for<'s> FnOnce(&'s Scratch) -> Result<&'s mut str, E>,
    {
        let text = NonNull::from(make(&self)?);
        Ok(Kept { text, _scratch: self })
    }

    /// What its blocks take of memory.
    pub fn bytes(&self) -> usize {
        let (mut bytes, mut block) = (0, self.newest.get());
        // SAFETY: blocks of this scratch, each of which begins with its head.
        while let Some(head) = unsafe { block.as_ref() } {
            bytes += head.bytes;
            block = head.older;
        }
        bytes
    }

    /// Frees all of it but for the newest block, which is used anew.
    pub fn clear(&mut self) {
        let newest = self.newest.get();
        // SAFETY: nothing borrows the scratch, so nobody uses what is in its blocks.
        unsafe {
            if let Some(head) = newest.as_mut() {
                free_from(core::mem::replace(&mut head.older, ptr::null_mut()));
                self.next.set(newest.cast::<u8>().add(size_of::<Head>()));
            }
        }
    }
}

/// # Safety
///
/// The blocks are of a scratch, and nobody uses them.
unsafe fn free_from(mut block: *mut Head) {
    while !block.is_null() {
        // SAFETY: as the caller promises.
        unsafe {
            let older = (*block).older;
            sys::free(block.cast());
            block = older;
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the scratch any more.
        unsafe { free_from(self.newest.get()) }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// A text in a [`Scratch`]: [`fmt::Write`], then [`Text::finish`].
#[derive(Debug)]
pub struct Text<'s> {
    scratch: &'s Scratch,
    start: NonNull<u8>,
    length: usize,
    room: usize,
    failed: bool,
}

impl<'s> Text<'s> {
    /// Adds to the end.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; the text is as it was.
    pub fn push_str(&mut self, more: &str) -> Result<(), Error> {
        if more.len() > self.room - self.length {
            self.reserve(more.len()).map_err(|error| {
                self.failed = true;
                error
            })?;
        }
        // SAFETY: there is room, which no other piece has.
        unsafe {
            let end = self.start.as_ptr().add(self.length);
            ptr::copy_nonoverlapping(more.as_ptr(), end, more.len());
        }
        self.length += more.len();
        Ok(())
    }

    /// In place, while the text is the scratch's last piece; else it moves.
    fn reserve(&mut self, more: usize) -> Result<(), Error> {
        let least = self.length.checked_add(more).ok_or(Error::OutOfMemory)?;
        let wanted = least.max(self.room.saturating_mul(2)).max(64);
        for bytes in [wanted, least] {
            let end = self.start.as_ptr().wrapping_add(self.room);
            if self.room > 0 && self.scratch.extend(end, bytes - self.room) {
                self.room = bytes;
                return Ok(());
            }
        }
        let layout = Layout::array::<u8>(wanted).map_err(|_| Error::OutOfMemory)?;
        let moved = self.scratch.alloc_layout(layout)?;
        // SAFETY: two pieces, and the new one is longer.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr(), moved.as_ptr(), self.length) };
        self.start = moved;
        self.room = wanted;
        Ok(())
    }

    /// What was written, for as long as the scratch.
    ///
    /// [`Text::is_whole`] says whether that is all: `write!` tells of a lack of memory by an
    /// error without a cause.
    pub fn finish(self) -> &'s mut str {
        // SAFETY: these bytes were copied from strings, and nobody else has the piece.
        unsafe {
            let bytes = slice::from_raw_parts_mut(self.start.as_ptr(), self.length);
            str::from_utf8_unchecked_mut(bytes)
        }
    }

    /// False: there was no memory for something of it.
    pub fn is_whole(&self) -> bool {
        !self.failed
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.push_str(more).map_err(|_| fmt::Error)
    }
}

/// A scratch, and a text in it: [`Scratch::keep`].
pub struct Kept {
    text: NonNull<str>,
    _scratch: Scratch,
}

// SAFETY: all that anybody gets of it is the text, shared.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl core::ops::Deref for Kept {
    type Target = str;
    fn deref(&self) -> &str {
        // SAFETY: it lies in a block of the scratch, which does not move; or it lives for ever.
        unsafe { self.text.as_ref() }
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

const _: () = assert!(size_of::<Head>() % align_of::<Head>() == 0);
