// SPDX-License-Identifier: MIT
//! The same on libslub.
//!
//! | lives as long as | memory |
//! |---|---|
//! | a tenant | a group with a limit, and a bucket for its values |
//! | a request | in the tenant's group at each poll; a page's parts lie in a scratch |
//! | a connection | a typed cache, in the server's group |

use crate::io::Io;
use crate::service::{NoMemory, Service};
use crate::Options;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use slub::group::{self, FollowOrEnd, Limit};
use slub::{sys, Bucket, Cache, Error, Group, Scratch};
use std::alloc::Layout;
use std::collections::HashMap;
use std::fmt::Write;
use std::future::Future;
use std::panic;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;

/// A bucket has a cache for each size that it was asked for, and there are 16,372.
const TENANTS_MAX: usize = 500;

type Connection = FollowOrEnd<&'static Group, &'static Group, http1::Connection<Io, Service>>;

pub struct Server {
    /// Connections, and what hyper needs for them.
    group: Group,
    overdraft: Group,
    connections: Cache<Connection>,
    tenants: Mutex<Tenants>,
    tenant_max: usize,
    faults: bool,
}

#[derive(Default)]
struct Tenants {
    by_name: HashMap<Box<str>, Arc<Tenant>>,
    made: u64,
}

#[derive(Clone)]
pub struct Store(&'static Server);

pub struct Tenant {
    name: Box<str>,
    values: Mutex<HashMap<Box<str>, Arc<Value>>>,
    home: Arc<Home>,
    overdraft: &'static Group,
}

/// It ends when the last value has gone, for an answer may be on its way still.
struct Home {
    bucket: Bucket,
    group: Arc<Group>,
}

pub struct Value {
    home: Arc<Home>,
    block: NonNull<u8>,
    room: usize,
    length: usize,
}

// SAFETY: the block is the value's own, and any thread may free it.
unsafe impl Send for Value {}
// SAFETY: it is written to by `&mut` only.
unsafe impl Sync for Value {}

impl From<Error> for NoMemory {
    fn from(_: Error) -> Self {
        NoMemory
    }
}

/// Below these nothing could be served.
fn check(options: &Options) -> Result<(), String> {
    for (name, bytes, least) in [
        ("tenant", options.tenant, 64 << 10),
        ("connections", options.connections, 256 << 10),
        ("overdraft", options.overdraft, 4 << 20),
    ] {
        if bytes < least {
            return Err(format!("{name}={bytes}: {least} is the least"));
        }
    }
    Ok(())
}

fn limited(name: &str, max: usize) -> Result<Group, Error> {
    let group = Group::new(name)?;
    group.set_limit(Limit::Max, Some(max))?;
    Ok(group)
}

impl Store {
    pub fn new(options: &Options) -> Result<Self, Box<dyn std::error::Error>> {
        check(options)?;
        let server = Server {
            group: limited("server", options.connections)?,
            overdraft: limited("overdraft", options.overdraft)?,
            connections: Cache::with_flags("connection", sys::SLUB_CACHE_ACCOUNT)?,
            tenants: Mutex::default(),
            tenant_max: options.tenant,
            faults: options.faults > 0,
        };
        server.connections.set_group(Some(&server.group))?;
        // What std keeps for backtraces is not the tenant's whose handler panicked first.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = Group::run_outside(|| hook(info));
        }));
        Ok(Store(Box::leak(Box::new(server))))
    }

    pub fn tenant(&self, name: &str) -> Result<Arc<Tenant>, NoMemory> {
        let mut tenants = self.0.tenants.lock().unwrap();
        if let Some(tenant) = tenants.by_name.get(name) {
            return Ok(tenant.clone());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if tenants.by_name.len() == TENANTS_MAX || name.len() > 24 || !name.chars().all(is_name) {
            return Err(NoMemory);
        }
        let tenant = self.0.make(name, tenants.made)?;
        tenants.made += 1;
        tenants.by_name.insert(name.into(), tenant.clone());
        Ok(tenant)
    }

    pub fn remove(&self, name: &str) -> bool {
        let removed = self.0.tenants.lock().unwrap().by_name.remove(name);
        removed.is_some()
    }

    pub fn faults(&self) -> bool {
        self.0.faults
    }

    /// What each has of memory, to the byte.
    pub fn report(&self) -> String {
        let line = |name: &str, group: &Group| {
            let (stats, max) = (group.stats(), group.limit(Limit::Max).unwrap_or(0));
            format!(
                "{name:?}: {{\"bytes\": {}, \"peak\": {}, \"max\": {max}, \"refused\": {}}}",
                stats.usage, stats.peak, stats.failures
            )
        };
        let server = line("server", &self.0.group);
        let overdraft = line("overdraft", &self.0.overdraft);
        let tenants = self.0.tenants.lock().unwrap();
        let tenants = tenants.by_name.values().map(|tenant| line(&tenant.name, &tenant.home.group));
        let tenants = tenants.collect::<Vec<_>>().join(",\n  ");
        format!("{{{server},\n {overdraft},\n \"tenants\": {{\n  {tenants}}}}}\n")
    }
}

impl Server {
    /// Of the tenant's own memory from the first byte.  A name may come again while answers of
    /// the tenant before are on their way, so `number` makes it one of its own.
    fn make(&'static self, name: &str, number: u64) -> Result<Arc<Tenant>, NoMemory> {
        let group = Arc::new(limited(name, self.tenant_max)?);
        let own = group.clone();
        let made = group.run_or_end(&self.overdraft, || {
            let bucket = Bucket::in_group(&format!("{name}-{number}"), &own)?;
            Ok::<_, Error>(Arc::new(Tenant {
                name: name.into(),
                values: Mutex::default(),
                home: Arc::new(Home { bucket, group: own }),
                overdraft: &self.overdraft,
            }))
        });
        Ok(made??)
    }
}

impl Value {
    pub fn push(&mut self, data: &[u8]) {
        assert!(data.len() <= self.room - self.length, "hyper reads no more than it said");
        // SAFETY: there is room.
        unsafe {
            let end = self.block.as_ptr().add(self.length);
            data.as_ptr().copy_to_nonoverlapping(end, data.len());
        }
        self.length += data.len();
    }

    fn layout(&self) -> Layout {
        // SAFETY: it was one when the block was allocated.
        unsafe { Layout::from_size_align_unchecked(self.room, 1) }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: so many bytes have been written.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.length) }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: allocated from there, with that layout.
        unsafe { self.home.bucket.free(self.block, self.layout()) }
    }
}

/// An answer's owner; the value may be overwritten meanwhile.
struct Shared(Arc<Value>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl Tenant {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bucket asks the tenant's group itself, so what stays is never lent.
    pub fn begin(&self, length: usize) -> Result<Value, NoMemory> {
        let layout = Layout::array::<u8>(length).map_err(|_| NoMemory)?;
        let block = self.home.bucket.alloc(layout)?;
        Ok(Value { home: self.home.clone(), block, room: length, length: 0 })
    }

    pub fn put(&self, key: &str, value: Value) -> Result<(), NoMemory> {
        let (key, value) = (key.into(), Arc::new(value));
        let mut values = self.values.lock().unwrap();
        group::refuse(|| values.try_reserve(1)).map_err(|_| NoMemory)?;
        // Key and count were, perhaps; then they must not stay.
        if group::is_overdrawn() {
            return Err(NoMemory);
        }
        let old = values.insert(key, value);
        drop(values);
        drop(old);
        Ok(())
    }

    pub fn get(&self, key: &str) -> Option<Bytes> {
        let value = self.values.lock().unwrap().get(key)?.clone();
        Some(Bytes::from_owner(Shared(value)))
    }

    pub fn remove(&self, key: &str) -> bool {
        let removed = self.values.lock().unwrap().remove(key);
        removed.is_some()
    }

    pub fn keys(&self) -> Vec<Box<str>> {
        self.values.lock().unwrap().keys().cloned().collect()
    }

    /// A table of all values, their beginnings escaped.  It goes with its scratch when hyper has
    /// sent it.
    pub fn page(&self) -> Result<Bytes, NoMemory> {
        Ok(Bytes::from_owner(Scratch::new().keep(|scratch| self.fill(scratch))?))
    }

    fn fill<'s>(&self, scratch: &'s Scratch) -> Result<&'s mut str, Error> {
        let values = self.values.lock().unwrap();
        let rows = scratch.alloc_iter(values.iter().map(|_| ("", 0, "")))?;
        for (row, (key, value)) in rows.iter_mut().zip(values.iter()) {
            let text = escaped(scratch, crate::service::beginning((**value).as_ref()))?;
            *row = (scratch.alloc_str(key)?, value.length, text);
        }
        drop(values);
        rows.sort_unstable();
        let name = escaped(scratch, self.name.as_bytes())?;
        let keys = scratch.alloc_iter(rows.iter().map(|_| ""))?;
        for (escaped_key, row) in keys.iter_mut().zip(rows.iter()) {
            *escaped_key = escaped(scratch, row.0.as_bytes())?;
        }
        let mut page = scratch.text();
        let _ = write!(page, "<h1>{name}</h1>\n<table>\n");
        for (key, (_, length, text)) in keys.iter().zip(rows.iter()) {
            let _ = writeln!(page, "<tr><td>{key}<td>{length}<td>{text}");
        }
        page.push_str("</table>\n")?;
        if page.is_whole() {
            Ok(page.finish())
        } else {
            Err(Error::OutOfMemory)
        }
    }

    pub async fn pays<T>(
        self: Arc<Self>,
        work: impl Future<Output = Result<T, NoMemory>>,
    ) -> Result<T, NoMemory> {
        group::follow_or_end(self.home.group.clone(), self.overdraft, work).await?
    }
}

fn escaped<'s>(scratch: &'s Scratch, bytes: &[u8]) -> Result<&'s str, Error> {
    let mut text = scratch.text();
    for byte in bytes {
        let mut one = [0; 1];
        text.push_str(crate::service::escape(*byte, &mut one))?;
    }
    Ok(text.finish())
}

pub fn connect(stream: TcpStream, store: Store) {
    let (server, mut stream) = (store.0, Some(stream));
    let make = || {
        let io = Io(stream.take().expect("called once"));
        let serving = http1::Builder::new().serve_connection(io, Service(store));
        group::follow_or_end(&server.group, &server.overdraft, serving)
    };
    let made = server.group.run_or_end(&server.overdraft, || server.connections.alloc_with(make));
    match made {
        Ok(Ok(connection)) => {
            // What it has gives itself back where the client or the memory ends it.
            tokio::spawn(slub::cache::Box::into_pin(connection));
        }
        _ => {
            let answer = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
                           content-length: 0\r\n\r\n";
            if let Some(stream) = stream {
                let _ = stream.try_write(answer);
            }
        }
    }
}
