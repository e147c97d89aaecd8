// SPDX-License-Identifier: MIT
//! Pressure, profile and sizes.

use slub::pressure::{self, Thread, Watch};
use slub::{good_size, node_shrink, profile, usable_size, Error, Slub};
use std::os::unix::io::{AsFd, AsRawFd};
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: Slub = Slub;

/// A second thread that opens what there is to watch is told to try again: one test at a time.
static OPENING: Mutex<()> = Mutex::new(());

/// Some machines tell nothing of memory pressure, and then say so.
#[test]
fn a_watch_is_a_descriptor() {
    let _opening = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match Watch::new() {
        Ok(watch) => {
            assert!(watch.as_raw_fd() >= 3);
            assert_eq!(watch.as_fd().as_raw_fd(), watch.as_raw_fd());
            assert_eq!(Watch::new().unwrap().as_raw(), watch.as_raw());
            assert_ne!(pressure::stats().sources, 0);
            let before = pressure::stats().events;
            let events = watch.handle().unwrap();
            assert!(pressure::stats().events >= before + u64::from(events));
        }
        Err(error) => assert_eq!(error, Error::Other(2), "ENOENT"),
    }
}

#[test]
fn there_is_one_thread() {
    let _opening = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let thread = Thread::start().unwrap();
    assert_eq!(Thread::start().unwrap_err(), Error::Other(17), "EEXIST");
    thread.stop().unwrap();
    drop(Thread::start().unwrap());
    // The drop has stopped it.
    let thread = Thread::start().unwrap();
    // SAFETY: always allowed.
    assert_eq!(unsafe { slub::sys::slub_pressure_stop_thread() }, 0);
    assert_eq!(thread.stop(), Err(Error::Other(3)), "ESRCH");
}

#[test]
fn a_profile_is_written() {
    let folder = std::env::temp_dir().join(format!("slub-rs-{}", std::process::id()));
    let file = folder.join("heap.%p");
    assert_eq!(profile::write(&file), Err(Error::Other(22)), "there was never one");
    assert_eq!(profile::start(usize::MAX), Err(Error::Other(22)));
    profile::start(1).unwrap();
    let kept: Vec<Vec<u8>> = (0..10).map(|_| vec![1; 12_345]).collect();
    profile::stop().unwrap();
    profile::stop().unwrap();
    assert_eq!(profile::write(&file), Err(Error::Other(2)), "no such folder");
    assert_eq!(profile::write("zero\0"), Err(Error::Other(22)));
    std::fs::create_dir(&folder).unwrap();
    profile::write(&file).unwrap();
    let written = folder.join(format!("heap.{}", std::process::id()));
    let text = String::from_utf8_lossy(&std::fs::read(&written).unwrap()).into_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.starts_with("heap profile:"), "{}", text.lines().next().unwrap_or(""));
    drop(kept);
}

#[test]
fn sizes() {
    for bytes in [0, 1, 8, 9, 100, 5000, 32 << 10, 40_000, 1 << 20] {
        let good = good_size(bytes).unwrap();
        assert!(good >= bytes && good_size(good) == Some(good), "{}", bytes);
        if bytes > 0 {
            let buffer = Vec::<u8>::with_capacity(bytes);
            assert_eq!(usable_size(&buffer[..]), good, "{}", bytes);
        }
    }
    assert_eq!(good_size(usize::MAX), None);
    slub::option::set("on_error", "report").unwrap();
    assert_eq!(usable_size(&7), 0, "not a block");
    slub::option::set("on_error", "abort").unwrap();
}

#[test]
fn a_node_that_there_is_not() {
    for node in [64, u32::MAX] {
        assert_eq!(node_shrink(Some(node)).unwrap_err().errno(), 22, "EINVAL");
    }
    assert!(node_shrink(Some(0)).is_ok());
    assert!(node_shrink(None).is_ok());
}
