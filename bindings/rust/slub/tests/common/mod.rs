// SPDX-License-Identifier: MIT
//! Tasks without a runtime: an executor that polls, and a future that waits once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))))
}

/// Pending once.
pub struct Turn(pub bool);

impl Future for Turn {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
