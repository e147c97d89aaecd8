// SPDX-License-Identifier: MIT
//! Memory of one request: pieces that do not overlap, texts that grow, an end that frees all.

use slub::group::Limit;
use slub::{Error, Group, Scratch, Slub};
use std::alloc::Layout;
use std::fmt::Write;

#[global_allocator]
static ALLOCATOR: Slub = Slub;

fn tenant(max: usize) -> Group {
    let tenant = Group::new("rs-scratch").unwrap();
    tenant.set_limit(Limit::Max, Some(max)).unwrap();
    tenant
}

#[test]
fn pieces_are_aligned_and_do_not_overlap() {
    let scratch = Scratch::new();
    let mut pieces = Vec::new();
    for i in 0..2000usize {
        let (bytes, align) = (i * 37 % 3000, 1 << (i % 9));
        let piece = scratch.alloc_layout(Layout::from_size_align(bytes, align).unwrap()).unwrap();
        assert_eq!(piece.as_ptr() as usize % align, 0);
        // SAFETY: it has that many bytes.
        unsafe { piece.as_ptr().write_bytes(i as u8, bytes) };
        pieces.push((piece, bytes, i as u8));
    }
    for (piece, bytes, value) in pieces {
        // SAFETY: as above, and all were written.
        let slice = unsafe { std::slice::from_raw_parts(piece.as_ptr(), bytes) };
        assert!(slice.iter().all(|&byte| byte == value));
    }
}

#[test]
fn values_slices_and_iterators() {
    let scratch = Scratch::new();
    let number = scratch.alloc(7u64).unwrap();
    let slice = scratch.alloc_slice(&[1u16, 2, 3]).unwrap();
    let squares = scratch.alloc_iter((0..1000u32).map(|i| i * i)).unwrap();
    let large = scratch.alloc_slice(&[5u8; 100_000]).unwrap();
    *number += 1;
    slice[0] = 9;
    assert_eq!((*number, &*slice, squares[999]), (8, &[9, 2, 3][..], 998_001));
    assert!(large.iter().all(|&byte| byte == 5));
    assert_eq!(scratch.alloc_iter::<u8, _>([]).unwrap().len(), 0);
    assert_eq!(scratch.alloc_slice::<()>(&[(); 3]).unwrap().len(), 3);
}

#[test]
fn a_new_one_takes_nothing_and_a_dropped_one_gives_all_back() {
    let group = tenant(1 << 20);
    let scratch = group.run(Scratch::new).unwrap();
    assert_eq!((scratch.bytes(), group.stats().usage), (0, 0));
    group.run(|| scratch.alloc_slice(&[1u8; 50_000]).map(|_| ())).unwrap().unwrap();
    assert!(scratch.bytes() >= 50_000 && group.stats().usage >= scratch.bytes());
    std::thread::spawn(move || drop(scratch)).join().unwrap();
    assert_eq!(group.stats().usage, 0);
}

#[test]
fn clear_keeps_one_block() {
    let mut scratch = Scratch::new();
    for _ in 0..3 {
        for _ in 0..1000 {
            scratch.alloc([3u64; 8]).unwrap();
        }
        assert!(scratch.bytes() >= 64_000);
        scratch.clear();
        assert!((1024..=32 << 10).contains(&scratch.bytes()), "{:?}", scratch);
    }
    Scratch::new().clear();
}

#[test]
fn a_maximum_is_an_error_and_the_scratch_goes_on() {
    let group = tenant(200_000);
    let mut scratch = Scratch::new();
    group
        .run(|| {
            let mut pieces = 0;
            while scratch.alloc([1u8; 1000]).is_ok() {
                pieces += 1;
            }
            assert!((100..200).contains(&pieces), "{}", pieces);
            assert_eq!(scratch.alloc_slice(&[0u8; 100_000]).err(), Some(Error::OutOfMemory));
            scratch.clear();
            assert!(scratch.alloc([1u8; 1000]).is_ok());
        })
        .unwrap();
}

#[test]
fn a_size_that_there_cannot_be() {
    let scratch = Scratch::new();
    let huge = Layout::from_size_align(isize::MAX as usize - 63, 64).unwrap();
    assert_eq!(scratch.alloc_layout(huge), Err(Error::OutOfMemory));
    assert_eq!(scratch.alloc_iter((0..usize::MAX).map(|i| i as u32)), Err(Error::OutOfMemory));
    assert!(scratch.alloc(1u8).is_ok());
}

#[test]
fn a_text_grows_where_it_is_or_moves() {
    let scratch = Scratch::new();
    let mut text = scratch.text();
    let mut expected = String::new();
    for i in 0..5000 {
        write!(text, "{} ", i).unwrap();
        write!(expected, "{} ", i).unwrap();
        if i % 700 == 0 {
            scratch.alloc(i).unwrap(); // now it is not the last piece
        }
    }
    assert!(text.is_whole());
    assert_eq!(&*text.finish(), expected);
    assert_eq!(scratch.text().finish(), "");
}

#[test]
fn a_text_without_memory_says_so() {
    let group = tenant(50_000);
    let scratch = Scratch::new();
    let (some, more) = ("x".repeat(100), "y".repeat(60_000));
    group
        .run(|| {
            let mut text = scratch.text();
            while text.write_str(&some).is_ok() {}
            assert!(!text.is_whole());
            assert_eq!(text.push_str(&more), Err(Error::OutOfMemory));
            assert!(text.finish().bytes().all(|byte| byte == b'x'));
        })
        .unwrap();
}

#[test]
fn what_is_kept_travels_and_is_charged_until_it_is_dropped() {
    let group = tenant(1 << 20);
    let answer = group
        .run(|| {
            Scratch::new().keep(|scratch| {
                let mut text = scratch.text();
                for i in 0..1000 {
                    let word = scratch.alloc_str("word")?;
                    word.make_ascii_uppercase();
                    text.push_str(word)?;
                    text.push_str(if i == 999 { "." } else { " " })?;
                }
                Ok::<_, Error>(text.finish())
            })
        })
        .unwrap()
        .unwrap();
    assert!(group.stats().usage > 5000);
    let length = std::thread::spawn(move || {
        assert!(answer.starts_with("WORD WORD") && answer.ends_with("WORD."));
        answer.len()
    });
    assert_eq!(length.join().unwrap(), 5000);
    assert_eq!(group.stats().usage, 0);
}

#[test]
fn an_error_of_make_drops_the_scratch() {
    let group = tenant(1 << 20);
    let failed = group.run(|| {
        Scratch::new().keep(|scratch| {
            scratch.alloc([1u8; 5000]).unwrap();
            Err("no answer")
        })
    });
    assert_eq!(failed.unwrap().unwrap_err(), "no answer");
    assert_eq!(group.stats().usage, 0);
}
