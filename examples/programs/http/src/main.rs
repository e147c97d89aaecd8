// SPDX-License-Identifier: MIT
//! A store for several tenants, over HTTP.
//!
//!   PUT /TENANT/KEY       keeps the body
//!   GET /TENANT/KEY       answers it
//!   DELETE /TENANT/KEY    lets it go;  DELETE /TENANT: the tenant
//!   GET /TENANT           a page with all of the tenant's keys
//!   GET /TENANT?export    all of it as JSON
//!   GET /                 what each tenant has, as JSON
//!
//! `memory` is plain Rust (plain.rs), or what libslub has for it (slub.rs).

mod io;
#[cfg_attr(feature = "groups", path = "slub.rs")]
#[cfg_attr(not(feature = "groups"), path = "plain.rs")]
mod memory;
mod service;

use std::net::SocketAddr;
use std::process::exit;
use tokio::net::TcpListener;

#[cfg(feature = "global")]
#[global_allocator]
static ALLOCATOR: slub::Slub = slub::Slub;

const USAGE: &str = "usage: http-tenants [OPTION=VALUE...]

  listen=ADDRESS        default 127.0.0.1:0: a free port, which is printed
  workers=N             threads, default 2
  tenant=BYTES          what each tenant may have, default 8388608
  connections=BYTES     what all connections may have, default 16777216
  overdraft=BYTES       for requests that have to end, default 67108864
  faults=1              GET /TENANT?panic panics
";

#[derive(Clone)]
pub struct Options {
    listen: SocketAddr,
    workers: usize,
    pub tenant: usize,
    pub connections: usize,
    pub overdraft: usize,
    pub faults: usize,
}

fn refuse(why: &str) -> ! {
    eprint!("http-tenants: {why}\n{USAGE}");
    exit(2);
}

fn number(word: &str, value: &str) -> usize {
    match value.parse() {
        Ok(number) if number > 0 => number,
        _ => refuse(&format!("{word}: a number from 1 on is wanted")),
    }
}

fn parse() -> Options {
    let mut options = Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        workers: 2,
        tenant: 8 << 20,
        connections: 16 << 20,
        overdraft: 64 << 20,
        faults: 0,
    };
    for word in std::env::args().skip(1) {
        let Some((name, value)) = word.split_once('=') else { refuse(&word) };
        match name {
            "listen" => match value.parse() {
                Ok(address) => options.listen = address,
                Err(_) => refuse(&format!("{word}: an address is wanted, as 127.0.0.1:8080")),
            },
            "workers" => options.workers = number(&word, value),
            "tenant" => options.tenant = number(&word, value),
            "connections" => options.connections = number(&word, value),
            "overdraft" => options.overdraft = number(&word, value),
            "faults" => options.faults = number(&word, value),
            _ => refuse(&word),
        }
    }
    options
}

async fn serve(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let store = memory::Store::new(&options)?;
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are whole when they are written.
                let _ = stream.set_nodelay(true);
                memory::connect(stream, store.clone());
            }
            // Of one connection, or there are too many files: go on.
            Err(error) => {
                eprintln!("http-tenants: accept: {error}");
                tokio::task::yield_now().await;
            }
        }
    }
}

fn main() {
    let options = parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_io()
        .build();
    let served = match runtime {
        Ok(runtime) => runtime.block_on(serve(options)),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = served {
        eprintln!("http-tenants: {error}");
        exit(1);
    }
}
