// SPDX-License-Identifier: MIT
//! libslub for Rust: the Linux kernel's SLUB allocator in user space.
//!
//! | | |
//! |---|---|
//! | [`Slub`] | the global allocator |
//! | [`Cache`] | objects of one type from slabs of their own; [`cache::Box`] drops back into it |
//! | [`StaticCache`] | the same for a `static`, made when it is first used |
//! | [`Counter`] | a counter with a copy per CPU: an add takes no atomic instruction |
//! | [`MovableCache`] | objects behind handles, which may be moved so that sparse slabs become empty |
//! | [`Bucket`] | blocks of any size for one subsystem, from slabs of its own |
//! | [`Arena`] | values that end together, as a request's do |
//! | [`Scratch`] | the same for one thread at a time, ended in a few calls of `free` |
//! | [`overdraft`] | tasks that end, and not the program, at their group's limit |
//! | [`Group`] | limits inside the process, for a tenant, a request or an async task |
//! | [`Pool`] | elements that are there when there is no memory |
//! | [`reserve`] | memory for a thread that needs some in order to free more |
//! | [`pressure`] | hears from the kernel that memory is short |
//! | [`Shrinker`] | closures that give memory back when it is short |
//! | [`option`] | the library's options, read and changed while the program runs |
//! | [`value`] | what the library counts, by name |
//! | [`node_shrink`] | what lies free on a NUMA node goes back |
//! | [`profile`] | which call stacks have allocated how much |
//! | [`good_size`], [`usable_size`] | what a block really has |
//! | [`rcu`] | readers without locks, and freeing what they may still look at |
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: slub::Slub = slub::Slub;
//!
//! static REQUESTS: slub::Counter = slub::Counter::new();
//!
//! let sessions = slub::Cache::new("session")?;
//! let mut session = sessions.alloc([0u8; 200])?;
//! session[0] = 1;
//! REQUESTS.add(1);
//! drop(session);                    // back into the cache
//! assert_eq!(REQUESTS.sum(), 1);
//! # Ok::<(), slub::Error>(())
//! ```
//!
//! Linking is `slub-sys`'s affair: set `SLUB_LIB_DIR` or install libslub so that
//! `pkg-config slub` finds it.  Minimum Rust: 1.63.
//!
//! # Without std
//!
//! The crate is `no_std`.  Its feature `std` (on by default) adds [`std::error::Error`] for
//! [`Error`], the conversion to `std::io::Error`, [`profile::write`], `AsFd` and `AsRawFd` for
//! [`pressure::Watch`], [`overdraft`], and what follows.
//!
//! # Panics in closures
//!
//! None gets into C's frames.  What [`cache::for_each`] and [`value::for_each`] call panics in the
//! end in their caller: the walk ends, and the panic goes on behind it.  What a [`Shrinker`] calls
//! runs in the middle of anybody's allocation: a panic there is caught, counted
//! ([`Shrinker::panics`]) and taken as "no progress is possible now".  Closures that only this crate
//! calls, as those of [`Group::run`], [`reserve::with`] and [`Cache::alloc_with`], panic as ever.
//! Without the feature `std` nothing can be caught: a panic in what C calls aborts.
//!
//! # Collections
//!
//! The feature `allocator-api2` makes [`Slub`], `&`[`Bucket`], `&`[`Arena`], `&`[`Scratch`] and
//! `&`[`Group`] allocators for the collections of the crate allocator-api2, and for others that
//! take its `Allocator`, such as hashbrown's.  A [`Cache`] is none: its blocks all have one size, and a
//! collection asks for any.
#![no_std]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(any(feature = "std", doc))]
extern crate std;

#[cfg(feature = "allocator-api2")]
mod allocator;
pub mod arena;
pub mod bucket;
pub mod cache;
mod counter;
mod error;
mod follow;
mod global;
pub mod group;
pub mod movable;
mod node;
pub mod option;
#[cfg(feature = "std")]
pub mod overdraft;
mod panics;
pub mod pool;
pub mod pressure;
pub mod profile;
pub mod rcu;
pub mod reserve;
mod roomy;
mod same;
pub mod scratch;
pub mod shrinker;
mod size;
pub mod value;

pub use arena::Arena;
pub use bucket::Bucket;
pub use cache::{Cache, StaticCache};
pub use counter::Counter;
pub use error::Error;
pub use global::Slub;
pub use group::Group;
pub use movable::MovableCache;
pub use node::node_shrink;
pub use pool::Pool;
pub use scratch::Scratch;
pub use shrinker::Shrinker;
pub use size::{good_size, usable_size};
/// The raw C interface.
pub use slub_sys as sys;

/// Runs the code of bindings/README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
