// SPDX-License-Identifier: MIT
//! Turns: where a group's maximum is in the way the task ends, and the program goes on.

mod common;

use common::{poll_once, Turn};
use slub::group::{self, Limit};
use slub::{sys, Error, Group, Scratch, Slub};
use std::panic::{self, catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::task::Poll;

#[global_allocator]
static ALLOCATOR: Slub = Slub;

const BYTES: usize = 100_000;
const MAX: usize = 1 << 20;

fn is_in_no_group() -> bool {
    // SAFETY: always allowed.
    unsafe { sys::slub_group_current() }.is_null()
}

/// A tenant that may have 1 MiB, and an overdraft.
fn pair() -> (Group, Group) {
    let tenant = Group::new("rs-tenant").unwrap();
    tenant.set_limit(Limit::Max, Some(MAX)).unwrap();
    (tenant, Group::new("rs-overdraft").unwrap())
}

fn blocks(nr: usize) -> Vec<Vec<u8>> {
    (0..nr).map(|_| vec![1; BYTES]).collect()
}

#[test]
fn work_within_the_limit_is_as_without() {
    let (tenant, overdraft) = pair();
    let kept = tenant.run_or_end(&overdraft, || blocks(5)).unwrap();
    assert_eq!(kept.len(), 5);
    assert!(tenant.stats().usage >= 5 * BYTES);
    assert_eq!((overdraft.stats().peak, tenant.stats().failures), (0, 0));
}

#[test]
fn beyond_it_the_result_is_dropped_and_nothing_is_left() {
    let (tenant, overdraft) = pair();
    let mut seen = (false, true);
    let result = tenant.run_or_end(&overdraft, || {
        seen.0 = group::is_overdrawn();
        let many = blocks(30);
        seen.1 = group::is_overdrawn();
        assert!(tenant.stats().usage <= MAX);
        many
    });
    assert_eq!(result, Err(Error::OutOfMemory));
    assert_eq!(seen, (false, true));
    assert!(tenant.stats().failures > 0);
    assert!(overdraft.stats().peak >= 20 * BYTES);
    assert_eq!((tenant.stats().usage, overdraft.stats().usage), (0, 0));
    assert!(is_in_no_group() && !group::is_overdrawn());
    assert!(tenant.run_or_end(&overdraft, || blocks(5)).is_ok());
}

/// Each way into the allocator: zeros, aligned ones, one that grows.
#[test]
fn every_kind_of_request_may_overdraw() {
    #[repr(align(64))]
    struct Aligned(#[allow(dead_code)] [u8; 64]);
    let (tenant, overdraft) = pair();
    let far = 2 * MAX;
    let ends = |work: &dyn Fn()| {
        assert_eq!(tenant.run_or_end(&overdraft, work), Err(Error::OutOfMemory));
        assert_eq!((tenant.stats().usage, overdraft.stats().usage), (0, 0));
    };
    ends(&|| assert!(vec![0u8; far].iter().all(|&byte| byte == 0)));
    ends(&|| {
        let mut grows = vec![7u8; 1000];
        grows.reserve_exact(far);
        assert!(grows.iter().all(|&byte| byte == 7));
    });
    ends(&|| {
        let many: Vec<_> = (0..far / 64).map(|_| Box::new(Aligned([1; 64]))).collect();
        assert!(many.iter().all(|aligned| &**aligned as *const Aligned as usize % 64 == 0));
    });
}

#[test]
fn what_can_fail_fails_in_refuse() {
    let (tenant, overdraft) = pair();
    let result = tenant.run_or_end(&overdraft, || {
        let mut body = Vec::<u8>::new();
        let refused = group::refuse(|| body.try_reserve_exact(2 * MAX)).is_err();
        (refused, group::is_overdrawn(), Scratch::new().alloc_slice(&[0u8; 2 * MAX]).is_err())
    });
    assert_eq!(result, Ok((true, false, true)));
    assert_eq!(overdraft.stats().peak, 0);
}

#[test]
fn without_a_turn_a_refusal_is_one() {
    let (tenant, _) = pair();
    let mut body = Vec::<u8>::new();
    assert!(tenant.run(|| body.try_reserve_exact(2 * MAX)).unwrap().is_err());
    assert!(!group::is_overdrawn());
}

#[test]
fn an_overdraft_has_a_limit_too() {
    let (tenant, overdraft) = pair();
    overdraft.set_limit(Limit::Max, Some(MAX)).unwrap();
    let result = tenant.run_or_end(&overdraft, || {
        let mut body = Vec::<u8>::new();
        (body.try_reserve_exact(3 * MAX).is_err(), body.capacity())
    });
    assert_eq!(result, Err(Error::OutOfMemory));
    assert_eq!(overdraft.stats().usage, 0);
}

#[test]
fn a_task_ends_at_the_poll_that_overdraws() {
    let (tenant, overdraft) = pair();
    let alive = Rc::new(());
    let held = alive.clone();
    let mut task = Box::pin(group::follow_or_end(&tenant, &overdraft, async move {
        let _held = held;
        let mut kept = Vec::new();
        loop {
            kept.push(blocks(4));
            Turn(false).await;
        }
    }));
    for turn in 1..=2 {
        assert!(poll_once(task.as_mut()).is_pending());
        assert!(is_in_no_group());
        assert_eq!(tenant.stats().usage / BYTES, 4 * turn);
    }
    assert_eq!(poll_once(task.as_mut()), Poll::<Result<(), _>>::Ready(Err(Error::OutOfMemory)));
    // The task was dropped by then, with all that it had; not only when this future is.
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!((tenant.stats().usage, overdraft.stats().usage), (0, 0));
    assert!(is_in_no_group());
    drop(task);
}

#[test]
fn a_task_that_is_cancelled_gives_everything_back() {
    let (tenant, overdraft) = pair();
    let mut task = Box::pin(group::follow_or_end(&tenant, &overdraft, async {
        let _kept = blocks(4);
        Turn(false).await;
    }));
    assert!(poll_once(task.as_mut()).is_pending());
    assert_eq!(tenant.stats().usage / BYTES, 4);
    drop(task);
    assert_eq!(tenant.stats().usage, 0);
    assert!(is_in_no_group());
}

/// With a message, which is charged, and no room left for it in the tenant.
#[test]
fn a_panic_leaves_turn_and_group() {
    // What a stack's symbols need, std keeps for the process: not the tenant's.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| Group::run_outside(|| hook(info)).unwrap()));
    let (tenant, overdraft) = pair();
    let mut task = Box::pin(group::follow_or_end(&tenant, &overdraft, async {
        let _kept = blocks(30);
        if group::is_overdrawn() {
            panic!("{}", "of the test".repeat(100));
        }
    }));
    let unwound = catch_unwind(AssertUnwindSafe(|| poll_once(task.as_mut())));
    let message = unwound.err().unwrap();
    assert!(message.downcast_ref::<String>().unwrap().contains("of the test"));
    assert!(is_in_no_group() && !group::is_overdrawn());
    drop((task, message));
    assert_eq!(tenant.close(), Ok(()));
    assert_eq!(overdraft.stats().usage, 0);
}

/// The inner turn's end is not the outer's.
#[test]
fn turns_nest() {
    let (tenant, overdraft) = pair();
    let outer = Group::new("rs-outer").unwrap();
    let result = outer.run_or_end(&overdraft, || {
        let inner = tenant.run_or_end(&overdraft, || blocks(30).len());
        (inner, group::is_overdrawn())
    });
    assert_eq!(result, Ok((Err(Error::OutOfMemory), false)));
}

/// The overdraft is on top of a group that is left before the turn ends, or is refused itself.
#[test]
fn other_groups_are_entered_in_a_turn() {
    let (tenant, overdraft) = pair();
    let (inner, free) = (pair().0, Group::new("rs-free").unwrap());
    let result = tenant.run_or_end(&overdraft, || {
        let first = inner.run(|| blocks(30)).unwrap();
        assert!(inner.stats().usage >= 5 * BYTES);
        assert_eq!(tenant.stats().usage, 0);
        let second = blocks(5);
        assert!(tenant.stats().usage >= 5 * BYTES);
        let third = blocks(10);
        let before = overdraft.stats().usage;
        let fourth = inner.run(|| blocks(30)).unwrap();
        assert!(overdraft.stats().usage >= before + 20 * BYTES);
        let fifth = free.run(|| blocks(5)).unwrap();
        assert!(free.stats().usage >= 5 * BYTES);
        Group::run_outside(|| assert_eq!(free.run(is_in_no_group), Ok(false))).unwrap();
        (first, second, third, fourth, fifth)
    });
    assert_eq!(result.err(), Some(Error::OutOfMemory));
    for group in [&tenant, &inner, &free, &overdraft] {
        assert_eq!(group.stats().usage, 0);
    }
    assert!(is_in_no_group());
}

#[test]
fn refuse_asks_the_tenant_again() {
    let (tenant, overdraft) = pair();
    let result = tenant.run_or_end(&overdraft, || {
        let many = blocks(30);
        let mut body = Vec::<u8>::new();
        assert!(group::refuse(|| body.try_reserve_exact(MAX)).is_err());
        drop(many);
        assert!(group::refuse(|| body.try_reserve_exact(MAX / 2)).is_ok());
        assert!(tenant.stats().usage >= MAX / 2);
        assert!(group::is_overdrawn());
    });
    assert_eq!(result, Err(Error::OutOfMemory));
}

/// A maximum above the tenant's is in the way.
#[test]
fn the_limit_may_be_a_parents() {
    let (all, overdraft) = pair();
    let tenant = Group::below("rs-below", &all).unwrap();
    let result = tenant.run_or_end(&overdraft, || blocks(30).len());
    assert_eq!(result, Err(Error::OutOfMemory));
    assert_eq!((tenant.limit(Limit::Max), all.stats().usage), (None, 0));
}

#[test]
fn in_too_many_groups_it_is_not_called() {
    fn nested(group: &Group, depth: u32, work: &mut dyn FnMut()) {
        match depth {
            0 => work(),
            _ => group.run(|| nested(group, depth - 1, work)).unwrap(),
        }
    }
    let (tenant, overdraft) = pair();
    let mut called = false;
    nested(&tenant, sys::SLUB_GROUP_NESTING_MAX, &mut || {
        let result = tenant.run_or_end(&overdraft, || called = true);
        assert_eq!(result, Err(Error::NoSpace));
    });
    assert!(!called && !group::is_overdrawn());
    // One less, and there is no place for the overdraft: refused, and no more than that.
    nested(&tenant, sys::SLUB_GROUP_NESTING_MAX - 1, &mut || {
        let result = tenant.run_or_end(&overdraft, || {
            let mut body = Vec::<u8>::new();
            body.try_reserve_exact(2 * MAX).is_err()
        });
        assert_eq!(result, Err(Error::OutOfMemory));
    });
    assert!(is_in_no_group());
}
