// SPDX-License-Identifier: MIT
//! C's inline functions: the restartable sequences of `slub/arch/x86_64.h` in this program's own
//! text, and the exported function where one fails.
//!
//! Why they are right, in the words of `docs/internals/rseq.md`:
//!
//! - RSEQ-1: the store of `rseq_cs` comes first; the CPU number is read after it.
//! - RSEQ-2: behind it is a straight line without a call, whose last instruction is the only one
//!   that others see: the commit.  A thread that the kernel preempts, moves or signals before it
//!   goes on at the abort address, which says "failed".
//! - RSEQ-3: before the commit only `room`, or the link and the check word of an object that
//!   nobody else has yet, is written.  An abort in between leaves `room` off by one, which the slow
//!   path mends, or the check word, which `slub_cache_free_aborted()` takes away.
//! - RSEQ-4: the area is this CPU's own if it has the CPU's number, which a stopped one has not;
//!   that is looked at before any store to it.
//! - RSEQ-5: the four bytes before the abort address are the signature, behind an instruction
//!   that disassemblers read as one.
//! - RSEQ-6: a link is read from the head of a list.  Another thread may have popped it since;
//!   then there is no commit.  Its memory is never unmapped, so the read cannot fault.
//!
//! What is Rust's own:
//!
//! - Each function is one statement, and whatever it reads of the thread's entrance it reads in
//!   there, each word once.  So the compiler keeps none of it across a call, a signal or an
//!   `await`, behind which it could be another thread's.  What a signal handler's slow call sets
//!   in between is all set before `rseq` or `map_pages` is other than 0, and these come first.
//! - Neither `nomem` nor `readonly`: to the compiler a statement may read and write any memory,
//!   as the call that it replaces.
//! - Control enters at the top and leaves at the end, also from the abort handler; labels of
//!   Rust, which came with 1.87, are not needed.  A register that is never 0 upon success is 0
//!   upon failure.
//! - The thread's entrance is `slub_percpu_self`, a thread-local variable of the initial-exec
//!   model, whose offset the dynamic linker has put into the table that `GOTTPOFF` names.
//! - The stack is not used, and the kernel spares the red zone when it builds a signal's frame.
//!
//! The kernel may look at a thread's last descriptor long after the sequence ended.  So a plugin
//! that has these in it must never be unloaded; one that may be is built with
//! `RUSTFLAGS="--cfg slub_no_inline"`, as in C with `-DSLUB_NO_INLINE`.  Then, under Miri, and on
//! any other CPU than x86-64 the exported functions are called.

use crate::{c_void, slub_cache};

/// Begins a sequence, whose descriptor becomes the thread's current one (RSEQ-1): from 4 on.
#[cfg(slub_inline)]
macro_rules! enter {
    () => {
        ".pushsection __rseq_cs, \"aw?\"
        .balign 32
        3:
        .long 0, 0
        .quad 4f, 5f - 4f, 6f
        .popsection
        leaq 3b(%rip), {t}
        movq {t}, %fs:8({rseq})
        4:
        movl %fs:({cid}), {t:e}
        cmpl {t:e}, 28({area})
        jne 7f
        "
    };
}

/// Ends it: 5 is behind the commit, 6 the abort address, 7 for "it cannot be done here".
#[cfg(slub_inline)]
macro_rules! leave {
    ($fail:literal) => {
        leave!($fail, $fail)
    };
    ($abort:literal, $fail:literal) => {
        concat!(
            "
            5:
            .pushsection .text.slub_abort, \"ax?\"
            .byte 0x0f, 0xb9, 0x3d
            .long 0x53053053
            6:
            ",
            $abort,
            "
            jmp 8f
            7:
            ",
            $fail,
            "
            jmp 8f
            .popsection
            8:"
        )
    };
}

/// Adds to this CPU's word; false: nothing was added.
#[cfg(slub_inline)]
#[inline(always)]
unsafe fn try_add(offset: usize, n: i64) -> bool {
    let area: usize;
    // SAFETY: see the head of this file; the caller's word is at that offset in each area.
    core::arch::asm!(
        "movq slub_percpu_self@GOTTPOFF(%rip), {t}",
        "movq %fs:8({t}), {rseq}",
        "testq {rseq}, {rseq}",
        "jz 7f",
        "movq %fs:40({t}), {area}",
        "movq %fs:16({t}), {cid}",
        "addq {area}, {word}",
        enter!(),
        "addq {n}, ({word})",
        leave!("xorl {area:e}, {area:e}"),
        t = out(reg) _,
        rseq = out(reg) _,
        cid = out(reg) _,
        area = out(reg) area,
        word = inout(reg) offset => _,
        n = in(reg) n,
        options(att_syntax, nostack),
    );
    area != 0
}

/// Are there sequences?  Else the exported functions do all of it.
pub(crate) const IS_INLINE: bool = cfg!(slub_inline);

/// This thread has entered a section of `slub_rcu_domain`: C's `slub_srcu_entered`.
#[cfg(slub_inline)]
#[inline(always)]
pub(crate) unsafe fn section_entered() {
    // SAFETY: this thread's own word.
    core::arch::asm!(
        "movq slub_percpu_self@GOTTPOFF(%rip), {t}",
        "incl %fs:52({t})",
        t = out(reg) _,
        options(att_syntax, nostack),
    );
}

/// It has left one: C's `slub_srcu_left`.  Not below 0: the carry is set where it is 0.
#[cfg(slub_inline)]
#[inline(always)]
pub(crate) unsafe fn section_left() {
    // SAFETY: this thread's own word.
    core::arch::asm!(
        "movq slub_percpu_self@GOTTPOFF(%rip), {t}",
        "cmpl $1, %fs:52({t})",
        "adcl $-1, %fs:52({t})",
        t = out(reg) _,
        options(att_syntax, nostack),
    );
}

#[cfg(not(slub_inline))]
#[inline(always)]
pub(crate) unsafe fn section_entered() {}

#[cfg(not(slub_inline))]
#[inline(always)]
pub(crate) unsafe fn section_left() {}

/// Takes the first object of the cache's list on this CPU; null: there is none, or its check word is
/// wrong, or the cache has none (see `slub_cache_try_pop()`).
#[cfg(slub_inline)]
#[inline(always)]
unsafe fn try_pop(cache: *mut slub_cache) -> *mut c_void {
    let object: *mut c_void;
    // SAFETY: see the head of this file; a cache begins with where its list and its links are.
    core::arch::asm!(
        "movq slub_percpu_self@GOTTPOFF(%rip), {t}",
        "movq %fs:8({t}), {rseq}",
        "testq {rseq}, {rseq}",
        "jz 7f",
        "movq %fs:40({t}), {area}",
        "movq %fs:16({t}), {cid}",
        "movl 4({cache}), {word:e}",
        "testl {word:e}, {word:e}",
        "jz 7f",
        "addq {area}, {word}",
        enter!(),
        "movq ({word}), {object}",
        "testq {object}, {object}",
        "jz 7f",
        "movq ({object}), {t}",
        "prefetchw ({t})",
        "movq 8({object}), {had}",
        "xorq {object}, {had}",
        "xorq {t}, {had}",
        "cmpq {had}, 16({area})",
        "jne 7f",
        "addl $1, 8({word})",
        "movq {t}, ({word})",
        leave!("xorl {object:e}, {object:e}"),
        cache = in(reg) cache,
        t = out(reg) _,
        rseq = out(reg) _,
        cid = out(reg) _,
        area = out(reg) _,
        word = out(reg) _,
        had = out(reg) _,
        object = out(reg) object,
        options(att_syntax, nostack),
    );
    if !object.is_null() {
        // It would look free.
        object.cast::<usize>().add(1).write(0);
    }
    object
}

/// Puts the object in front of the cache's list on this CPU, or the function that goes on where the
/// kernel has interrupted that frees it; false: nothing was done.
#[cfg(slub_inline)]
#[inline(always)]
unsafe fn try_push(cache: *mut slub_cache, object: *mut c_void) -> bool {
    let area: usize;
    // SAFETY: see the head of this file; an address outside of the heap is beyond its map, and
    // what the map says of a page is whose objects are on it.
    core::arch::asm!(
        "movq slub_percpu_self@GOTTPOFF(%rip), {t}",
        "movq %fs:32({t}), {room}",
        "movq %fs:24({t}), {area}",
        "movq {object}, {word}",
        "subq {area}, {word}",
        "shrq $12, {word}",
        "cmpq {room}, {word}",
        "jae 7f",
        "movzwl ({area}, {word}, 2), {word:e}",
        "cmpl {word:e}, 56({cache})",
        "jne 7f",
        "movl {object:e}, {word:e}",
        "andl 80({cache}), {word:e}",
        "imull 84({cache}), {word:e}",
        "cmpl 84({cache}), {word:e}",
        "jae 7f",
        "movq %fs:8({t}), {rseq}",
        "movq %fs:40({t}), {area}",
        "movq %fs:16({t}), {cid}",
        "movl 24({cache}), {word:e}",
        "addq {area}, {word}",
        enter!(),
        "movl 8({word}), {room:e}",
        "subl $1, {room:e}",
        "jl 7f",
        "movzwl 14({object}), {t:e}",
        "cmpl $0x86f9, {t:e}",
        "je 7f",
        "movq ({word}), {t}",
        "movq {t}, ({object})",
        "xorq {object}, {t}",
        "xorq 16({area}), {t}",
        "movq {t}, 8({object})",
        "movl {room:e}, 8({word})",
        "movq {object}, ({word})",
        leave!("movl $1, {area:e}", "xorl {area:e}, {area:e}"),
        cache = in(reg) cache,
        object = in(reg) object,
        t = out(reg) _,
        rseq = out(reg) _,
        cid = out(reg) _,
        area = out(reg) area,
        word = out(reg) _,
        room = out(reg) _,
        options(att_syntax, nostack),
    );
    // 1: the kernel has interrupted it.
    match area {
        0 => false,
        1 => {
            crate::slub_cache_free_aborted(cache, object);
            true
        }
        _ => true,
    }
}

#[cfg(not(slub_inline))]
#[inline(always)]
unsafe fn try_add(_: usize, _: i64) -> bool {
    false
}

#[cfg(not(slub_inline))]
#[inline(always)]
unsafe fn try_pop(_: *mut slub_cache) -> *mut c_void {
    core::ptr::null_mut()
}

#[cfg(not(slub_inline))]
#[inline(always)]
unsafe fn try_push(_: *mut slub_cache, _: *mut c_void) -> bool {
    false
}

/// [`slub_percpu_add`](crate::slub_percpu_add), inline.
///
/// # Safety
/// As for that function.
#[inline(always)]
pub unsafe fn percpu_add(offset: usize, n: i64) {
    if !try_add(offset, n) {
        crate::slub_percpu_add(offset, n);
    }
}

/// [`slub_cache_alloc`](crate::slub_cache_alloc), inline but for an accounted cache.
///
/// # Safety
/// As for that function.
#[inline(always)]
pub unsafe fn cache_alloc(cache: *mut slub_cache) -> *mut c_void {
    let object = try_pop(cache);
    if object.is_null() {
        return crate::slub_cache_alloc(cache);
    }
    object
}

/// [`slub_cache_free`](crate::slub_cache_free), inline.
///
/// # Safety
/// As for that function.
#[inline(always)]
pub unsafe fn cache_free(cache: *mut slub_cache, object: *mut c_void) {
    if !try_push(cache, object) {
        crate::slub_cache_free(cache, object);
    }
}
