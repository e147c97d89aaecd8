// SPDX-License-Identifier: MIT

use crate::error::Error;
use crate::group::Group;
use core::borrow::Borrow;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A future that a group pays for, on whichever thread it is polled: [`follow`],
/// [`Group::follow`].
///
/// Its output is that of the future inside, or [`Error::NoSpace`] if a thread that polls it is
/// in 8 groups already; the future inside is not polled then.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Follow<G, F> {
    group: G,
    future: F,
}

/// As [`Group::follow`], with a group that may be shared: what an executor wants to be `'static`
/// has an `Arc<Group>`.
///
/// ```
/// use slub::{group, Group};
/// use std::sync::Arc;
///
/// fn spawn<F: std::future::Future + Send + 'static>(_: F) {}
///
/// let tenant = Arc::new(Group::new("tenant7")?);
/// spawn(group::follow(tenant.clone(), async { vec![0u8; 100].len() }));
/// # Ok::<(), slub::Error>(())
/// ```
pub fn follow<G: Borrow<Group>, F: Future>(group: G, future: F) -> Follow<G, F> {
    Follow { group, future }
}

impl<G: Borrow<Group>, F: Future> Future for Follow<G, F> {
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future inside is pinned as this is: it is never moved out, there is no
        // Drop here, and this is Unpin only if the future inside is.
        let (group, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&this.group, Pin::new_unchecked(&mut this.future))
        };
        // Left at the end of each poll, also by a panic: other tasks of the thread are not
        // charged.
        match group.borrow().run(|| future.poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
