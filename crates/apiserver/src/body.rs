//! The bodies of requests: received within limits of bytes, memory and time, before their request has a seat (KAPI-SRV-06).

use axum::body::{Body, HttpBody as _};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::inflight::{self, Allocation};
use crate::request::negotiate;

/// The largest request body.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Receives the body of a request, and gives it its seat when it is there: a body that is half sent keeps no other request out.
pub async fn receive(context: &Context, body: &mut Body) -> Result<bytes::Bytes> {
    let Context { request, api, allocation, .. } = context;
    let Allocation { caller, work, .. } = allocation;
    let announced = body.size_hint().exact().map_or(BODY_LIMIT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let received = read_body(context, body, announced);
    let received = if caller.exempt {
        received.await?
    } else {
        let patience = inflight::body_patience(announced.min(BODY_LIMIT));
        tokio::time::timeout(patience, received).await.map_err(|_| inflight::out_of_time())??
    };
    let memory = match negotiate::content_type(&request.headers) {
        mainstay_protobuf::MEDIA_TYPE => received.len().saturating_mul(PROTOBUF).min(TREE_LIMIT),
        "application/yaml" | "text/yaml" | "application/x-yaml" | "application/apply-patch+yaml" => weigh_yaml(&received),
        _ => weigh(&received),
    };
    if received.len() > inflight::SMALL || memory > HEAVY {
        if memory > TREE_LIMIT && !caller.exempt {
            return Err(ApiError::too_large(BODY_LIMIT));
        }
        api.inflight.decode(work, caller, memory).await?;
        allocation.long().await;
    }
    api.inflight.seat(work, &request.info, caller).await?;
    Ok(received)
}

/// Reads a body within the limit; what lies beyond it is left there. Room is asked for before much of it is read.
async fn read_body(context: &Context, body: &mut Body, announced: usize) -> Result<bytes::Bytes> {
    let mut limited = Limited::new(body, BODY_LIMIT);
    let (mut first, mut rest) = (bytes::Bytes::new(), bytes::BytesMut::new());
    let mut has_room = false;
    while let Some(frame) = limited.frame().await {
        let piece = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if error.is::<LengthLimitError>() => return Err(ApiError::too_large(BODY_LIMIT)),
            Err(error) => return Err(ApiError::bad_request(format!("error reading the request body: {error}"))),
        };
        if first.is_empty() {
            first = piece;
        } else {
            // Small pieces are not kept: each holds the whole of what was read with it.
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&piece);
        }
        if first.len().max(rest.len()) > inflight::SMALL && !std::mem::replace(&mut has_room, true) {
            context.api.inflight.receive(&context.allocation.work, &context.allocation.caller, announced.min(BODY_LIMIT)).await?;
        }
    }
    // The usual body is one piece.
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// The most memory that a decoded body may take.
const TREE_LIMIT: usize = 96 << 20;
/// Bytes of memory of a value in an array, an object with a field, and a field: about, in `serde_json`.
const VALUE: usize = 32;
const OBJECT: usize = 640;
const FIELD: usize = 96;
/// Bytes of memory that a byte of protobuf may become, about; its decoder counts values itself.
const PROTOBUF: usize = 100;
/// From here on a small body is worked on as a large one.
const HEAVY: usize = 4 << 20;
/// The levels that a text may nest to be decoded.
const DEEPEST: usize = 128;

/// About how much memory a JSON text takes when it is decoded: a few bytes of it can become many.
fn weigh(text: &[u8]) -> usize {
    let (mut weight, mut depth, mut quoted, mut escaped) = (text.len(), 0_usize, false, false);
    for byte in text {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            // No reader goes on from here.
            break;
        }
        weight += match byte {
            b'"' => {
                quoted = true;
                0
            }
            b',' => VALUE,
            b':' => FIELD - VALUE,
            b'{' => OBJECT,
            b'[' => 4 * VALUE,
            _ => 0,
        };
    }
    weight
}

/// The same of YAML: what is quoted cannot be told, so that each sign that may begin a value counts.
fn weigh_yaml(text: &[u8]) -> usize {
    let weight = |byte: &u8| match byte {
        b'{' | b':' | b'?' => OBJECT + FIELD,
        b'[' | b'-' => 4 * VALUE,
        b',' => FIELD,
        b'\n' => VALUE,
        _ => 0,
    };
    text.iter().fold(text.len(), |sum, byte| sum + weight(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-SRV-06: a small text that becomes large is known before it is decoded, an honest one weighs little more than it is long.
    #[test]
    fn texts_are_weighed() {
        let objects = format!("[{}]", vec![r#"{"":0}"#; 100_000].join(","));
        assert!(weigh(objects.as_bytes()) > 60 << 20, "{}", weigh(objects.as_bytes()));
        let honest = serde_json::json!({"data": {"text": "{[,:\\\"".repeat(100_000)}}).to_string();
        assert!(weigh(honest.as_bytes()) < honest.len() + 4_096);
        for text in ["", "\"", "\"\\", "{", "[[[["] {
            assert!(weigh(text.as_bytes()) >= text.len());
        }
        let deep = "[".repeat(1_000_000);
        assert!(weigh(deep.as_bytes()) < 2 * deep.len(), "it is refused where it gets too deep");
    }
}
