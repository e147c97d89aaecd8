// SPDX-License-Identifier: MIT
//! Groups that follow tasks: of two on one thread each is charged with its own.

mod common;

use common::{poll_once, Turn};
use slub::{group, sys, Error, Group, Slub};
use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::task::Poll;

#[global_allocator]
static ALLOCATOR: Slub = Slub;

const BYTES: usize = 100_000;

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return output;
        }
    }
}

fn is_in_no_group() -> bool {
    current().is_null()
}

fn current() -> *mut sys::slub_group {
    // SAFETY: always allowed.
    unsafe { sys::slub_group_current() }
}

/// Allocates `blocks` large blocks, one a turn.
async fn work(blocks: usize) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    for _ in 0..blocks {
        kept.push(vec![1; BYTES]);
        Turn(false).await;
    }
    kept
}

fn charged(group: &Group) -> usize {
    group.stats().usage / BYTES
}

#[test]
fn each_of_two_tasks_pays_for_itself() {
    let (first, second) = (Group::new("rs-first").unwrap(), Group::new("rs-second").unwrap());
    let mut one = Box::pin(first.follow(work(3)));
    let mut two = Box::pin(second.follow(work(5)));
    for turn in 1..=3 {
        assert!(poll_once(one.as_mut()).is_pending());
        assert!(is_in_no_group());
        let between = vec![1u8; BYTES];
        assert!(poll_once(two.as_mut()).is_pending());
        assert_eq!((charged(&first), charged(&second)), (turn, turn));
        drop(between);
    }
    let kept = match poll_once(one.as_mut()) {
        Poll::Ready(kept) => kept.unwrap(),
        Poll::Pending => panic!("it has no more turns"),
    };
    assert_eq!(kept.len(), 3);
    assert_eq!(block_on(two).unwrap().len(), 5);
    assert_eq!((charged(&first), charged(&second)), (3, 0));
    assert!(is_in_no_group());
    drop(kept);
    drop(one);
    assert_eq!((first.stats().usage, second.stats().usage), (0, 0));
}

#[test]
fn a_panic_leaves_the_group() {
    let (tenant, other) = (Group::new("rs-panics").unwrap(), Group::new("rs-goes-on").unwrap());
    let mut bad = Box::pin(tenant.follow(async {
        let _kept = vec![1u8; BYTES];
        Turn(false).await;
        resume_unwind(Box::new(())); // without a message, which would be charged, too
    }));
    let mut good = Box::pin(other.follow(work(2)));
    assert!(poll_once(bad.as_mut()).is_pending());
    assert!(poll_once(good.as_mut()).is_pending());
    assert_eq!((charged(&tenant), charged(&other)), (1, 1));
    assert!(catch_unwind(AssertUnwindSafe(|| poll_once(bad.as_mut()).is_ready())).is_err());
    assert!(is_in_no_group());
    assert!(poll_once(good.as_mut()).is_pending());
    assert_eq!((charged(&tenant), charged(&other)), (0, 2));
    drop(bad);
    assert_eq!(tenant.close(), Ok(()));
}

#[test]
fn a_task_goes_from_thread_to_thread() {
    let tenant = Arc::new(Group::new("rs-travels").unwrap());
    let mut task = Box::pin(group::follow(tenant.clone(), work(4)));
    for turn in 1..=4 {
        task = std::thread::spawn(move || {
            assert!(poll_once(task.as_mut()).is_pending());
            assert!(is_in_no_group());
            task
        })
        .join()
        .unwrap();
        assert_eq!(charged(&tenant), turn);
    }
    assert_eq!(block_on(task).unwrap().len(), 4);
    assert_eq!(tenant.stats().usage, 0);
}

#[test]
fn tasks_nest() {
    let (outer, inner) = (Group::new("rs-outer").unwrap(), Group::new("rs-inner").unwrap());
    let is_inner = inner.follow(async { current() });
    let both = outer.follow(async {
        let seen = is_inner.await.unwrap();
        (seen, current())
    });
    assert_eq!(block_on(both).unwrap(), (inner.as_raw(), outer.as_raw()));
    assert!(is_in_no_group());
}

#[test]
fn in_too_many_groups_it_is_not_polled() {
    fn nested(group: &Group, depth: u32, work: &mut dyn FnMut()) {
        match depth {
            0 => work(),
            _ => group.run(|| nested(group, depth - 1, work)).unwrap(),
        }
    }
    let group = Group::new("rs-deep").unwrap();
    let mut polled = false;
    let mut task = Box::pin(group.follow(async { polled = true }));
    nested(&group, sys::SLUB_GROUP_NESTING_MAX, &mut || {
        assert_eq!(poll_once(task.as_mut()), Poll::Ready(Err(Error::NoSpace)));
    });
    // One less is allowed, and nothing of the refusal is left.
    nested(&group, sys::SLUB_GROUP_NESTING_MAX - 1, &mut || {
        assert_eq!(poll_once(task.as_mut()), Poll::Ready(Ok(())));
    });
    drop(task);
    assert!(polled);
    assert!(is_in_no_group());
}
