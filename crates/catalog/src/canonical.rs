//! JSON text to canonical JSON text (OLM1-CAT-07: one line, keys sorted, no HTML escaping), without a tree in between.
//!
//! The transcoder is a serde visitor that writes what it is shown. A mapping is written as it comes; when its keys were not
//! sorted, its members are put in order afterwards, inside the output buffer. A key given twice keeps its last value.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads one JSON value from the start of `input` and appends its canonical text to `out`; returns the number of bytes read.
pub(crate) fn transcode(input: &[u8], out: &mut Vec<u8>) -> Result<usize, serde_json::Error> {
    let mut de = serde_json::Deserializer::from_slice(input);
    Transcoder { out }.deserialize(&mut de)?;
    Ok(de.into_iter::<serde::de::IgnoredAny>().byte_offset())
}

struct Transcoder<'o> {
    out: &'o mut Vec<u8>,
}

impl Transcoder<'_> {
    fn write<T: serde::Serialize + ?Sized, E: Error>(self, value: &T) -> Result<(), E> {
        serde_json::to_writer(&mut *self.out, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Transcoder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Transcoder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<(), E> {
        self.write(&v)
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<(), E> {
        self.write(&v)
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<(), E> {
        self.write(&v)
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<(), E> {
        self.write(&v)
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<(), E> {
        self.write(v)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let start = self.out.len();
        loop {
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            if seq.next_element_seed(Transcoder { out: &mut *self.out })?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let mut members: Vec<(String, Range<usize>)> = Vec::new();
        let mut sorted = true;
        while let Some(key) = map.next_key::<String>()? {
            if !members.is_empty() {
                self.out.push(b',');
            }
            let start = self.out.len();
            serde_json::to_writer(&mut *self.out, &key).map_err(A::Error::custom)?;
            self.out.push(b':');
            map.next_value_seed(Transcoder { out: &mut *self.out })?;
            sorted = sorted && members.last().is_none_or(|(last, _)| *last < key);
            members.push((key, start..self.out.len()));
        }
        if !sorted {
            reorder(self.out, members);
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Puts the members of the mapping at the end of `out` in the order of their keys.
fn reorder(out: &mut Vec<u8>, mut members: Vec<(String, Range<usize>)>) {
    let Some(first) = members.first().map(|(_, range)| range.start) else { return };
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let mut ordered = Vec::with_capacity(out.len() - first);
    let mut rest = members.iter().peekable();
    while let Some((key, range)) = rest.next() {
        if rest.peek().is_some_and(|(next, _)| next == key) {
            continue;
        }
        if !ordered.is_empty() {
            ordered.push(b',');
        }
        ordered.extend_from_slice(&out[range.clone()]);
    }
    out.truncate(first);
    out.extend_from_slice(&ordered);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = Vec::new();
        let read = transcode(text.as_bytes(), &mut out).unwrap();
        assert_eq!(read, text.trim_end().len());
        String::from_utf8(out).unwrap()
    }

    /// OLM1-CAT-07: keys sorted, compact, no HTML escaping; the last of two equal keys counts.
    #[test]
    fn sorts_and_compacts() {
        let cases = [
            ("{}", "{}"),
            ("[]", "[]"),
            (r#"{ "b": [1, -2, 2.5, null, true], "a": "<&>\u0041" }"#, r#"{"a":"<&>A","b":[1,-2,2.5,null,true]}"#),
            (r#"{"z":{"y":1,"x":{}},"a":{},"z":2}"#, r#"{"a":{},"z":2}"#),
        ];
        for (input, expected) in cases {
            assert_eq!(canonical(input), expected);
        }
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            "\\PC{0,6}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                prop::collection::vec(("[a-d\"\\n]{0,2}", inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// OLM1-CAT-07: the transcoder agrees with the slow way through a tree.
        #[test]
        fn agrees_with_a_tree(value in any_value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(canonical(&pretty), value.to_string());
        }
    }
}
