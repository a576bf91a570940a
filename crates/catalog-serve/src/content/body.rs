//! Ranges of a catalog's content as the body of an answer.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use mainstay_catalog_store::StoredCatalog;

/// Bytes that are read and sent at once.
const PIECE: u64 = 64 * 1024;

/// Reads the ranges one after another, a piece whenever the connection can take one.
///
/// Reading waits only for the disk, and rarely for that: requested content is in the page cache.
pub(super) struct Pieces {
    content: StoredCatalog,
    ranges: VecDeque<Range<u64>>,
    left: u64,
}

impl Pieces {
    pub(super) fn new(content: StoredCatalog, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut joined: VecDeque<Range<u64>> = VecDeque::new();
        for range in ranges {
            match joined.back_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push_back(range),
            }
        }
        let left = joined.iter().map(|range| range.end - range.start).sum();
        Self { content, ranges: joined, left }
    }

    /// Returns the bytes that are still to come.
    pub(super) fn length(&self) -> u64 {
        self.left
    }

    fn next(&mut self) -> io::Result<Bytes> {
        let mut piece = vec![0; self.left.min(PIECE) as usize];
        let mut filled = 0;
        while filled < piece.len() {
            let Some(range) = self.ranges.front_mut() else { break };
            let wanted = (range.end - range.start).min((piece.len() - filled) as u64);
            let into = &mut piece[filled..filled + wanted as usize];
            if (self.content.read_at(range.start, into)? as u64) < wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += wanted as usize;
            range.start += wanted;
            if range.start == range.end {
                self.ranges.pop_front();
            }
        }
        self.left -= filled as u64;
        Ok(piece.into())
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(self.next().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
