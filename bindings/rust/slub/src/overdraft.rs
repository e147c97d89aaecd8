// SPDX-License-Identifier: MIT
//! Tasks that end, and not the program, where their group's maximum is in the way.
//!
//! `vec!`, `Box::new` and `format!` cannot say that there is no memory: the program ends.  In a
//! *turn*, a call of [`Group::run_or_end`] or a poll of [`follow_or_end`], what the group refuses
//! to the global allocator is charged to a second group, the overdraft, and so is what the turn
//! asks for after that.  So the work goes on to the end of its turn; then its result, or the
//! task, is dropped, and the caller gets [`Error::OutOfMemory`].
//!
//! ```
//! use slub::{group::Limit, Error, Group};
//!
//! #[global_allocator]
//! static ALLOCATOR: slub::Slub = slub::Slub;
//!
//! let (tenant, overdraft) = (Group::new("tenant7")?, Group::new("overdraft")?);
//! tenant.set_limit(Limit::Max, Some(1 << 20))?;
//! overdraft.set_limit(Limit::Max, Some(64 << 20))?;
//!
//! let many = || (0..100).map(|_| vec![1u8; 100_000]).collect::<Vec<_>>();
//! assert_eq!(tenant.run_or_end(&overdraft, many), Err(Error::OutOfMemory));
//! assert!(tenant.stats().failures > 0);
//! assert_eq!(overdraft.stats().usage, 0);             // what was lent is back
//! assert_eq!(tenant.run_or_end(&overdraft, || vec![1u8; 1000].len())?, 1000);
//! # Ok::<(), Error>(())
//! ```
//!
//! The turn cannot call back what its work has put elsewhere: that stays charged to the
//! overdraft.  So what outlives a turn is better asked for where a refusal is an error, in
//! [`refuse`], or from a [`Bucket`](crate::Bucket::in_group) or a
//! [`Cache`](crate::Cache::set_group) of the group's own.  [`is_overdrawn`] tells the work itself.
//! Whatever asks the library and not the global allocator never begins an overdraft: a
//! [`Scratch`](crate::Scratch), an [`Arena`](crate::Arena).
//!
//! A request that the overdraft's own maximum refuses, too, ends the program as before.

use crate::error::Error;
use crate::group::Group;
use core::borrow::Borrow;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};
use slub_sys as sys;
use std::thread_local;

struct Turn<'g> {
    overdraft: &'g Group,
    is_overdrawn: Cell<bool>,
    /// The thread entered the overdraft on top of the turn's group, and has not left it.
    is_inside: Cell<bool>,
}

impl Turn<'_> {
    /// Is the overdraft what the thread is charged to now, on behalf of the turn?
    fn pays(&self) -> bool {
        // SAFETY: always allowed.
        self.is_inside.get() && unsafe { sys::slub_group_current() } == self.overdraft.as_raw()
    }

    /// To be entered again by each refused request would cost each of them a walk over the
    /// CPU's lists, whose objects are charged to the one and the other by turns.
    fn overdraw(&self, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
        self.is_overdrawn.set(true);
        if self.pays() {
            return ptr::null_mut(); // it has a maximum itself
        }
        if self.is_inside.get() {
            // Of a group that was entered since.
            return self.overdraft.run(allocate).unwrap_or(ptr::null_mut());
        }
        // SAFETY: the group lives.
        if unsafe { sys::slub_group_enter(self.overdraft.as_raw()) } != 0 {
            return ptr::null_mut();
        }
        self.is_inside.set(true);
        allocate()
    }

    /// False: the overdraft is not the group entered last.
    fn step_out(&self) -> bool {
        let pays = self.pays();
        if pays {
            // SAFETY: this thread entered it, and nothing since.
            unsafe { sys::slub_group_leave(self.overdraft.as_raw()) };
            self.is_inside.set(false);
        }
        pays
    }
}

// Neither allocates nor has a destructor, so an allocator may use it at any time.
thread_local! {
    static TURN: Cell<*const Turn<'static>> = const { Cell::new(ptr::null()) };
}

/// The thread is in the turn, or in none, for as long as this lives.
struct Set {
    before: *const Turn<'static>,
}

impl Set {
    fn to(turn: *const Turn<'_>) -> Self {
        Set { before: TURN.with(|current| current.replace(turn.cast())) }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        step_out();
        TURN.with(|current| current.set(self.before));
    }
}

/// The thread's turn, if it is in one.
fn turn<R>(look: impl FnOnce(&Turn<'_>) -> R) -> Option<R> {
    // SAFETY: it is where Set::to() found it, in a frame below this one, until Set is dropped.
    TURN.with(|current| unsafe { current.get().as_ref() }).map(look)
}

/// What `allocate` could not have from the thread's groups, from the overdraft.
#[cold]
pub(crate) fn overdraw(allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    turn(|turn| turn.overdraw(allocate)).unwrap_or(ptr::null_mut())
}

/// Leaves the overdraft that the thread entered last; the next refusal enters it again.
#[cold]
pub(crate) fn step_out() -> bool {
    turn(|turn| turn.step_out()).unwrap_or(false)
}

/// Calls `work`, in which a request beyond the maximum fails, as it does outside of turns:
/// [`Vec::try_reserve`](std::vec::Vec::try_reserve) returns an error.
///
/// ```
/// use slub::{group::{self, Limit}, Group};
/// # #[global_allocator]
/// # static ALLOCATOR: slub::Slub = slub::Slub;
///
/// let (tenant, overdraft) = (Group::new("tenant7")?, Group::new("overdraft")?);
/// tenant.set_limit(Limit::Max, Some(1 << 20))?;
/// let said = tenant.run_or_end(&overdraft, || {
///     let mut body = Vec::<u8>::new();
///     group::refuse(|| body.try_reserve_exact(50 << 20)).is_err()
/// })?;
/// assert!(said);
/// # Ok::<(), slub::Error>(())
/// ```
pub fn refuse<R>(work: impl FnOnce() -> R) -> R {
    step_out();
    let _none = Set::to(ptr::null());
    work()
}

/// Will this thread's turn end with [`Error::OutOfMemory`]?
pub fn is_overdrawn() -> bool {
    turn(|turn| turn.is_overdrawn.get()).unwrap_or(false)
}

/// Calls `work` in a turn; `end` is called after it, in the same turn if that is overdrawn.
fn take_turn<W, R>(
    group: &Group,
    overdraft: &Group,
    what: &mut W,
    work: impl FnOnce(&mut W) -> R,
    end: impl FnOnce(&mut W),
) -> Result<R, Error> {
    let turn = Turn { overdraft, is_overdrawn: Cell::new(false), is_inside: Cell::new(false) };
    group.run(|| {
        let _set = Set::to(&turn);
        let result = work(what);
        if !turn.is_overdrawn.get() {
            return Ok(result);
        }
        drop(result);
        end(what);
        Err(Error::OutOfMemory)
    })?
}

impl Group {
    /// As [`Group::run`], but what the group refuses to the global allocator is charged to
    /// `overdraft`, and the result is dropped then.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]: something was refused.  [`Error::NoSpace`] as [`Group::run`].
    pub fn run_or_end<R>(&self, overdraft: &Group, work: impl FnOnce() -> R) -> Result<R, Error> {
        take_turn(self, overdraft, &mut (), |()| work(), |()| ())
    }
}

/// A future that a group pays for, and that ends where the group cannot: [`follow_or_end`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct FollowOrEnd<G, O, F> {
    group: G,
    overdraft: O,
    future: Option<F>,
}

/// As [`follow`](crate::group::follow), but what the group refuses to the global allocator is
/// charged to `overdraft`.
///
/// At the end of such a poll the future inside is dropped, and the output is
/// [`Error::OutOfMemory`].  A server answers 503 then, and goes on.
///
/// ```
/// use slub::{group::{self, Limit}, Error, Group};
/// use std::sync::Arc;
/// # use std::{future::Future, task::{Context, Poll, Wake, Waker}};
/// # #[global_allocator]
/// # static ALLOCATOR: slub::Slub = slub::Slub;
/// # struct Nobody;
/// # impl Wake for Nobody { fn wake(self: Arc<Self>) {} }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let waker = Waker::from(Arc::new(Nobody));
/// #     let mut future = Box::pin(future);
/// #     loop {
/// #         if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             return output;
/// #         }
/// #     }
/// # }
///
/// async fn answer(bytes: usize) -> Vec<u8> { vec![1; bytes] }
///
/// let (tenant, overdraft) = (Arc::new(Group::new("tenant7")?), Arc::new(Group::new("over")?));
/// tenant.set_limit(Limit::Max, Some(1 << 20))?;
/// let ask = |bytes| group::follow_or_end(tenant.clone(), overdraft.clone(), answer(bytes));
/// assert_eq!(block_on(ask(2 << 20)), Err(Error::OutOfMemory));
/// assert_eq!(block_on(ask(1000)).map(|answer| answer.len()), Ok(1000));
/// # Ok::<(), Error>(())
/// ```
pub fn follow_or_end<G, O, F>(group: G, overdraft: O, future: F) -> FollowOrEnd<G, O, F>
where
    G: Borrow<Group>,
    O: Borrow<Group>,
    F: Future,
{
    FollowOrEnd { group, overdraft, future: Some(future) }
}

impl<G, O, F> Future for FollowOrEnd<G, O, F>
where
    G: Borrow<Group>,
    O: Borrow<Group>,
    F: Future,
{
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future inside is pinned as this is: it is never moved out, there is no
        // Drop here, and this is Unpin only if the future inside is.
        let (group, overdraft, mut future) = unsafe {
            let this = self.get_unchecked_mut();
            (&this.group, &this.overdraft, Pin::new_unchecked(&mut this.future))
        };
        let polled = take_turn(
            group.borrow(),
            overdraft.borrow(),
            &mut future,
            |future| future.as_mut().as_pin_mut().expect("polled after its end").poll(context),
            |future| future.set(None),
        );
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
