// SPDX-License-Identifier: MIT
//! The store as its author would write it: the heap is one, and has no limits.

use crate::io::Io;
use crate::service::{self, NoMemory, Service};
use crate::Options;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use std::collections::HashMap;
use std::fmt::Write;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;

#[derive(Clone)]
pub struct Store {
    tenants: Arc<Mutex<HashMap<String, Arc<Tenant>>>>,
    faults: bool,
}

pub struct Tenant {
    name: String,
    values: Mutex<HashMap<Box<str>, Bytes>>,
}

pub struct Value(Vec<u8>);

impl Value {
    pub fn push(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }
}

impl Store {
    pub fn new(options: &Options) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Store { tenants: Arc::default(), faults: options.faults > 0 })
    }

    pub fn tenant(&self, name: &str) -> Result<Arc<Tenant>, NoMemory> {
        let mut tenants = self.tenants.lock().unwrap();
        if let Some(tenant) = tenants.get(name) {
            return Ok(tenant.clone());
        }
        let tenant = Arc::new(Tenant { name: name.into(), values: Mutex::default() });
        tenants.insert(name.into(), tenant.clone());
        Ok(tenant)
    }

    pub fn remove(&self, name: &str) -> bool {
        self.tenants.lock().unwrap().remove(name).is_some()
    }

    pub fn faults(&self) -> bool {
        self.faults
    }

    /// What values have; nobody knows what they take of memory.
    pub fn report(&self) -> String {
        let mut text = String::from("{\"tenants\": {");
        for (i, tenant) in self.tenants.lock().unwrap().values().enumerate() {
            let bytes: usize = tenant.values.lock().unwrap().values().map(Bytes::len).sum();
            let comma = if i > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}{:?}: {{\"values\": {bytes}}}", tenant.name);
        }
        text + "}}\n"
    }
}

impl Tenant {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn begin(&self, length: usize) -> Result<Value, NoMemory> {
        let mut value = Vec::new();
        value.try_reserve_exact(length).map_err(|_| NoMemory)?;
        Ok(Value(value))
    }

    pub fn put(&self, key: &str, value: Value) -> Result<(), NoMemory> {
        self.values.lock().unwrap().insert(key.into(), value.0.into());
        Ok(())
    }

    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.values.lock().unwrap().get(key).cloned()
    }

    pub fn remove(&self, key: &str) -> bool {
        self.values.lock().unwrap().remove(key).is_some()
    }

    /// A table of all values, their beginnings escaped.
    pub fn page(&self) -> Result<Bytes, NoMemory> {
        let mut rows: Vec<(String, usize, String)> = Vec::new();
        for (key, value) in self.values.lock().unwrap().iter() {
            rows.push((key.to_string(), value.len(), escaped(service::beginning(value))));
        }
        rows.sort();
        let mut page = format!("<h1>{}</h1>\n<table>\n", escaped(self.name.as_bytes()));
        for (key, length, text) in &rows {
            let key = escaped(key.as_bytes());
            let _ = writeln!(page, "<tr><td>{key}<td>{length}<td>{text}");
        }
        page.push_str("</table>\n");
        Ok(page.into())
    }

    pub fn keys(&self) -> Vec<Box<str>> {
        self.values.lock().unwrap().keys().cloned().collect()
    }

    pub async fn pays<T>(
        self: Arc<Self>,
        work: impl Future<Output = Result<T, NoMemory>>,
    ) -> Result<T, NoMemory> {
        work.await
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let mut one = [0; 1];
        text.push_str(service::escape(*byte, &mut one));
    }
    text
}

pub fn connect(stream: TcpStream, store: Store) {
    let serving = http1::Builder::new().serve_connection(Io(stream), Service(store));
    tokio::spawn(async {
        // A client that goes in the middle is none of the server's errors.
        let _ = serving.await;
    });
}
