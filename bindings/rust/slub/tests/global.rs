// SPDX-License-Identifier: MIT
//! The global allocator: every shape of layout, contents kept, memory shared with C.

use slub::{sys, Slub};
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};

#[global_allocator]
static ALLOCATOR: Slub = Slub;

fn layouts() -> impl Iterator<Item = Layout> {
    let sizes = [1, 7, 8, 15, 16, 17, 24, 100, 255, 4096, 5000, 70_000, 300_000];
    let aligns = (0..=14).map(|shift| 1usize << shift);
    aligns.flat_map(move |align| {
        sizes.into_iter().map(move |size| Layout::from_size_align(size, align).unwrap())
    })
}

#[test]
fn is_the_library() {
    let boxed = Box::new([0u64; 4]);
    // SAFETY: the question may be asked of any pointer.
    let cache = unsafe { sys::slub_cache_of((&*boxed as *const [u64; 4]).cast()) };
    assert!(!cache.is_null(), "a Box does not lie in a slab");
}

#[test]
fn alignment_and_contents() {
    for layout in layouts() {
        // SAFETY: the layouts have no size of zero; the block is used in its bounds.
        unsafe {
            let block = Slub.alloc(layout);
            assert!(!block.is_null());
            assert_eq!(block as usize % layout.align(), 0, "{:?}", layout);
            block.write_bytes(0xa5, layout.size());
            Slub.dealloc(block, layout);

            let zeroed = Slub.alloc_zeroed(layout);
            assert_eq!(zeroed as usize % layout.align(), 0, "{:?}", layout);
            let bytes = std::slice::from_raw_parts(zeroed, layout.size());
            assert!(bytes.iter().all(|&byte| byte == 0), "{:?}", layout);
            Slub.dealloc(zeroed, layout);
        }
    }
}

#[test]
fn realloc_keeps_contents_and_alignment() {
    for layout in layouts() {
        for bytes in [1, 9, 64, layout.size() + 1, layout.size() * 3, 40_000] {
            // SAFETY: as above; the block has the new size behind realloc().
            unsafe {
                let block = Slub.alloc(layout);
                for i in 0..layout.size() {
                    block.add(i).write(i as u8);
                }
                let moved = Slub.realloc(block, layout, bytes);
                assert_eq!(moved as usize % layout.align(), 0, "{:?} {}", layout, bytes);
                for i in 0..layout.size().min(bytes) {
                    assert_eq!(*moved.add(i), i as u8, "{:?} {} {}", layout, bytes, i);
                }
                moved.write_bytes(1, bytes);
                let new = Layout::from_size_align(bytes, layout.align()).unwrap();
                Slub.dealloc(moved, new);
            }
        }
    }
}

#[test]
fn realloc_in_place_where_there_is_room() {
    let layout = Layout::from_size_align(100, 64).unwrap();
    // SAFETY: as above.
    unsafe {
        let block = Slub.alloc(layout);
        let room = sys::malloc_usable_size(block.cast());
        assert!(room >= 100);
        assert_eq!(Slub.realloc(block, layout, room), block);
        let grown = Layout::from_size_align(room, 64).unwrap();
        Slub.dealloc(block, grown);
    }
}

#[test]
fn memory_goes_between_rust_and_c() {
    let text = std::ffi::CString::new("from C").unwrap();
    extern "C" {
        fn strdup(text: *const sys::c_char) -> *mut sys::c_char;
    }
    // SAFETY: the vector gets a block that malloc returned, with its layout.
    let taken = unsafe { Vec::from_raw_parts(strdup(text.as_ptr().cast()).cast::<u8>(), 6, 7) };
    assert_eq!(taken, b"from C");
}

#[test]
fn collections_and_threads() {
    let threads: Vec<_> = (0..4)
        .map(|seed: u64| {
            std::thread::spawn(move || {
                let mut map = BTreeMap::new();
                for i in 0..20_000u64 {
                    map.insert(i.wrapping_mul(seed + 7919) % 10_007, vec![i; (i % 50) as usize]);
                }
                map
            })
        })
        .collect();
    let mut total = HashMap::new();
    for thread in threads {
        for (key, values) in thread.join().unwrap() {
            assert!(values.windows(2).all(|pair| pair[0] == pair[1]));
            *total.entry(key).or_insert(0) += values.len();
        }
    }
    assert!(!total.is_empty());
}
