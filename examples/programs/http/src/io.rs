// SPDX-License-Identifier: MIT
//! A socket of tokio's, as hyper wants it.

use hyper::rt;
use std::io::{Error, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub struct Io(pub TcpStream);

impl Io {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl rt::Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut cursor: rt::ReadBufCursor<'_>,
    ) -> Poll<Result<(), Error>> {
        // SAFETY: tokio writes to it only what it initializes.
        let mut buffer = ReadBuf::uninit(unsafe { cursor.as_mut() });
        let polled = self.stream().poll_read(context, &mut buffer);
        let filled = buffer.filled().len();
        // SAFETY: so many bytes were filled.
        polled.map_ok(|()| unsafe { cursor.advance(filled) })
    }
}

impl rt::Write for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.stream().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        self.stream().poll_write_vectored(context, slices)
    }
}
