// SPDX-License-Identifier: MIT
//! NUMA nodes.

use crate::Error;
use core::convert::TryFrom;
use slub_sys as sys;
use sys::c_int;

const EINVAL: i32 = 22;
const NODE_ANY: c_int = -1;

/// Gives back to the system what lies free in the memory of a NUMA node, or of all nodes;
/// returns how many bytes.
///
/// ```
/// drop(vec![1u8; 1 << 20]);
/// slub::node_shrink(Some(0))?;
/// assert_eq!(slub::node_shrink(Some(1000)).unwrap_err().errno(), 22);
/// # Ok::<(), slub::Error>(())
/// ```
///
/// # Errors
///
/// By [`Error::errno`]: `EINVAL`, there is no such node; `EDEADLK`, called by a signal handler.
pub fn node_shrink(node: Option<u32>) -> Result<usize, Error> {
    let number = match node {
        Some(number) => c_int::try_from(number).map_err(|_| Error::from_errno(EINVAL))?,
        None => NODE_ANY,
    };
    // SAFETY: always allowed.
    let bytes = unsafe { sys::slub_node_shrink(number) };
    usize::try_from(bytes).map_err(|_| Error::from_errno(-bytes as i32))
}
