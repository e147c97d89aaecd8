// SPDX-License-Identifier: MIT
// Threads that build and drop maps, strings and boxes through Rust's system allocator.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn work(seed: u64) -> u64 {
    let mut state = seed;
    let mut map: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut names: HashMap<String, Box<[u64; 9]>> = HashMap::new();
    for _ in 0..30000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        map.insert(state >> 52, vec![state as u8; (state >> 54) as usize]);
        names.insert(format!("name{}", state >> 53), Box::new([state; 9]));
        if state >> 63 == 1 {
            map.remove(&(state >> 51));
        }
    }
    let bytes: u64 = map.values().flatten().map(|&b| b as u64).sum();
    let boxes = names.values().fold(0u64, |sum, b| sum.wrapping_add(b[8]));
    bytes ^ boxes
}

fn main() {
    let (sender, receiver) = mpsc::channel();
    for seed in 1..9 {
        let sender = sender.clone();
        thread::spawn(move || sender.send((seed, work(seed))).unwrap());
    }
    drop(sender);
    let mut answers: Vec<_> = receiver.iter().collect();
    answers.sort();
    println!("{:?}", answers);
}

#[test]
fn same_seed_same_answer() {
    assert_eq!(work(3), work(3));
}
