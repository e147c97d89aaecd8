// SPDX-License-Identifier: MIT

use core::fmt;

/// Why something could not be made or allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory.
    OutOfMemory,
    /// The name is empty, longer than 47 bytes, or has a blank or an
    /// unprintable character.
    BadName,
    /// There is a cache, a bucket or an arena of that name already.
    NameTaken,
    /// The type is larger than 256 KiB, or asks for an alignment above 4096.
    BadType,
    /// There are too many caches, groups or shrinkers, the per-CPU areas are
    /// full, or groups are nested too deep.
    NoSpace,
    /// Objects of the cache are still allocated; there are groups below the
    /// group; more is in use than the limit is to be; somebody moves objects.
    Busy,
    /// The lists of another CPU could not be emptied, or another thread does the same just
    /// now; try again.
    TryAgain,
    /// The call would wait for its own caller: a reader ([`rcu::read`](crate::rcu::read)) that
    /// waits for readers, a callback that ends what it is called by, a signal handler that
    /// interrupted the library.
    Deadlock,
    /// Another error, by its `errno`.
    Other(i32),
}

const ENOMEM: i32 = 12;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EDEADLK: i32 = 35;

impl Error {
    pub(crate) fn from_errno(errno: i32) -> Self {
        match errno {
            ENOMEM => Error::OutOfMemory,
            EEXIST => Error::NameTaken,
            ENOSPC => Error::NoSpace,
            EBUSY => Error::Busy,
            EAGAIN => Error::TryAgain,
            EDEADLK => Error::Deadlock,
            other => Error::Other(other),
        }
    }

    /// What a C function returned: 0, or a negative `errno`.
    pub(crate) fn check(result: i32) -> Result<(), Self> {
        match result {
            0 => Ok(()),
            negative => Err(Error::from_errno(-negative)),
        }
    }

    /// The `errno` that C code sees in the same situation.
    pub fn errno(&self) -> i32 {
        match *self {
            Error::OutOfMemory => ENOMEM,
            Error::BadName | Error::BadType => EINVAL,
            Error::NameTaken => EEXIST,
            Error::NoSpace => ENOSPC,
            Error::Busy => EBUSY,
            Error::TryAgain => EAGAIN,
            Error::Deadlock => EDEADLK,
            Error::Other(errno) => errno,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Error::OutOfMemory => "out of memory",
            Error::BadName => "a name has 1 to 47 printable ASCII characters and no blanks",
            Error::NameTaken => "there is a cache or a bucket of that name already",
            Error::BadType => {
                "a cache's objects have at most 256 KiB and an alignment of at most 4096"
            }
            Error::NoSpace => {
                "too many, or the per-CPU areas are full (SLUB_PERCPU_BYTES is their size)"
            }
            Error::Busy => {
                "still in use: objects are allocated, groups are below it, or it holds more \
                 than the limit"
            }
            Error::TryAgain => "it could not be done just now: try again",
            Error::Deadlock => {
                "the call would wait for its own caller: a reader, a callback or a signal handler"
            }
            Error::Other(errno) => return other(f, errno),
        })
    }
}

/// What the library answers besides, with its name, and in words that say what is meant here.
fn other(f: &mut fmt::Formatter<'_>, errno: i32) -> fmt::Result {
    let (name, text) = match errno {
        1 => ("EPERM", "this counts at the start of the program only, or is the root"),
        2 => ("ENOENT", "there is no such thing"),
        3 => ("ESRCH", "no such thread runs"),
        7 => ("E2BIG", "too deep, or too large"),
        9 => ("EBADF", "the program closed the descriptor"),
        EEXIST => ("EEXIST", "it is there already"),
        EINVAL => ("EINVAL", "an argument, a name or a flag that is not allowed here"),
        34 => ("ERANGE", "there is not enough room for the answer"),
        35 => {
            ("EDEADLK", "it would wait for its caller: a signal handler, a callback, or a reader")
        }
        36 => ("ENAMETOOLONG", "the name of the file is too long"),
        95 => ("EOPNOTSUPP", "the cache's objects cannot be moved"),
        _ => return unnamed(f, errno),
    };
    write!(f, "{} ({})", text, name)
}

/// What the system says of a file, for instance.
#[cfg(feature = "std")]
fn unnamed(f: &mut fmt::Formatter<'_>, errno: i32) -> fmt::Result {
    fmt::Display::fmt(&std::io::Error::from_raw_os_error(errno), f)
}

#[cfg(not(feature = "std"))]
fn unnamed(f: &mut fmt::Formatter<'_>, errno: i32) -> fmt::Result {
    write!(f, "error {} of the system", errno)
}

#[cfg(feature = "std")]
impl std::error::Error for Error {}

#[cfg(feature = "std")]
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno())
    }
}
