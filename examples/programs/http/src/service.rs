// SPDX-License-Identifier: MIT
//! Requests and answers, whatever the memory is.

use crate::memory::{Store, Tenant};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{HeaderValue, CONTENT_TYPE, RETRY_AFTER};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// No value is longer.
const VALUE_MAX: u64 = 1 << 20;

/// What a tenant may not have.
#[derive(Debug)]
pub struct NoMemory;

/// A body that is there already.
pub struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

pub type Answer = Response<Whole>;

fn answer(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Whole(Some(body)));
    *answer.status_mut() = status;
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    answer(status, Bytes::from_static(text.as_bytes()))
}

fn no_memory() -> Answer {
    let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, "the tenant has all it may have\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn page(body: Bytes, kind: &'static str) -> Answer {
    let mut answer = answer(StatusCode::OK, body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn or_not_found(body: Option<Bytes>) -> Answer {
    match body {
        Some(body) => answer(StatusCode::OK, body),
        None => plain(StatusCode::NOT_FOUND, "no such key\n"),
    }
}

/// The next piece of a body; None: its end.  Err: the client has gone.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Room for the body is asked for before it is read.
async fn put(tenant: &Tenant, key: &str, body: &mut Incoming) -> Result<Answer, NoMemory> {
    let Some(length) = body.size_hint().exact() else {
        return Ok(plain(StatusCode::LENGTH_REQUIRED, "a Content-Length is wanted\n"));
    };
    if length > VALUE_MAX {
        return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, "a value has 1 MiB at most\n"));
    }
    let mut value = tenant.begin(length as usize)?;
    loop {
        match next(body).await {
            Ok(Some(data)) => value.push(&data),
            Ok(None) => break,
            Err(_) => return Ok(plain(StatusCode::BAD_REQUEST, "the body has no end\n")),
        }
    }
    tenant.put(key, value)?;
    Ok(plain(StatusCode::CREATED, ""))
}

/// Code like most: it knows nothing of limits, and yields now and then.
async fn export(tenant: &Tenant) -> String {
    let mut text = String::from("{");
    for (i, key) in tenant.keys().into_iter().enumerate() {
        let Some(value) = tenant.get(&key) else { continue };
        let comma = if text.len() > 1 { ",\n" } else { "\n" };
        text += &format!("{comma}{key:?}: {:?}", String::from_utf8_lossy(&value));
        if i % 16 == 15 {
            tokio::task::yield_now().await;
        }
    }
    text + "\n}\n"
}

/// Of a value, what a page shows.
pub fn beginning(value: &[u8]) -> &[u8] {
    &value[..value.len().min(100)]
}

/// A byte of a page; `one` is room for it.
pub fn escape(byte: u8, one: &mut [u8; 1]) -> &str {
    match byte {
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'&' => "&amp;",
        b' '..=b'~' => {
            one[0] = byte;
            std::str::from_utf8(one).unwrap_or(".")
        }
        _ => ".",
    }
}

async fn answer_to(
    tenant: &Tenant,
    head: &request::Parts,
    body: &mut Incoming,
    faults: bool,
) -> Result<Answer, NoMemory> {
    let path = head.uri.path().trim_start_matches('/');
    let key = path.split_once('/').map_or("", |(_, key)| key);
    Ok(match (&head.method, key, head.uri.query()) {
        (&Method::GET, "", Some("export")) => page(export(tenant).await.into(), "application/json"),
        (&Method::GET, "", Some("panic")) if faults => panic!("asked for by {}", tenant.name()),
        (&Method::GET, "", _) => page(tenant.page()?, "text/html; charset=utf-8"),
        (&Method::GET, key, _) => or_not_found(tenant.get(key)),
        (&Method::PUT, key, _) if !key.is_empty() => put(tenant, key, body).await?,
        (&Method::DELETE, key, _) => match tenant.remove(key) {
            true => plain(StatusCode::NO_CONTENT, ""),
            false => plain(StatusCode::NOT_FOUND, "no such key\n"),
        },
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET, PUT or DELETE is wanted\n"),
    })
}

/// What is charged to the tenant: all of its request but for the bytes on their way in.  A body
/// that no answer asked for is read all the same: a server that closes what it has not read resets
/// the connection, and its answer is lost.
async fn handle(
    tenant: Arc<Tenant>,
    request: Request<Incoming>,
    faults: bool,
) -> Result<Answer, NoMemory> {
    let (head, mut body) = request.into_parts();
    let answer = answer_to(&tenant, &head, &mut body, faults).await;
    while let Ok(Some(_)) = next(&mut body).await {}
    answer
}

/// A panic ends the request, not the connection.
struct Caught<F>(F);

impl<F: Future<Output = Answer>> Future for Caught<F> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        // SAFETY: the future inside is pinned as this is.
        let future = unsafe { self.map_unchecked_mut(|caught| &mut caught.0) };
        catch_unwind(AssertUnwindSafe(|| future.poll(context))).unwrap_or_else(|_| {
            Poll::Ready(plain(StatusCode::INTERNAL_SERVER_ERROR, "the handler panicked\n"))
        })
    }
}

async fn route(store: Store, request: Request<Incoming>) -> Answer {
    let name = request.uri().path().trim_start_matches('/');
    let (name, key) = name.split_once('/').unwrap_or((name, ""));
    if name.is_empty() {
        return page(store.report().into(), "application/json");
    }
    if key.is_empty() && request.method() == Method::DELETE {
        return match store.remove(name) {
            true => plain(StatusCode::NO_CONTENT, ""),
            false => plain(StatusCode::NOT_FOUND, "no such tenant\n"),
        };
    }
    let Ok(tenant) = store.tenant(name) else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "no room for another tenant\n");
    };
    let faults = store.faults();
    let handled = tenant.clone().pays(handle(tenant, request, faults));
    handled.await.unwrap_or_else(|NoMemory| no_memory())
}

#[derive(Clone)]
pub struct Service(pub Store);

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let caught = Caught(route(self.0.clone(), request));
        Box::pin(async { Ok(caught.await) })
    }
}
