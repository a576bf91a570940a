//! The shapes of Kubernetes' names, and the messages about names that do not have them.
//!
//! Each function returns the problems; an empty list means the name is good. Kubernetes joins several problems of one name with a comma.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS1035_LABEL_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_TEXT: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A DNS label of RFC 1123: at most 63 lower case letters, digits and dashes.
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63, "characters");
    if !is_label(name) {
        wrong.push(shape(DNS1123_LABEL_TEXT, DNS1123_LABEL, &["my-name", "123-abc"]));
    }
    wrong
}

/// A DNS subdomain of RFC 1123: labels with dots between them, at most 253 characters.
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 253, "characters");
    if !name.split('.').all(is_label) {
        wrong.push(shape(DNS1123_SUBDOMAIN_TEXT, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// A DNS label of RFC 1035: like RFC 1123, and the first character is a letter.
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63, "characters");
    if !is_label(name) || !name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        wrong.push(shape(DNS1035_LABEL_TEXT, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    wrong
}

/// The key of a label or annotation: an optional DNS prefix and `/`, then a name of at most 63 characters.
pub fn qualified_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts = name.splitn(3, '/');
    let local = match (parts.next(), parts.next(), parts.next()) {
        (Some(only), None, None) => only,
        (Some(prefix), Some(local), None) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(dns1123_subdomain(prefix).into_iter().map(|text| format!("prefix part {text}")));
            }
            local
        }
        _ => {
            let text = shape(QUALIFIED_NAME_TEXT, QUALIFIED_NAME, &["MyName", "my.name", "123-abc"]);
            wrong.push(format!("a qualified name {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"));
            return wrong;
        }
    };
    if local.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if local.len() > 63 {
        wrong.push(format!("name part {}", limit(63, "bytes")));
    }
    if !is_qualified(local) {
        wrong.push(format!("name part {}", shape(QUALIFIED_NAME_TEXT, QUALIFIED_NAME, &["MyName", "my.name", "123-abc"])));
    }
    wrong
}

/// The value of a label: empty, or at most 63 characters.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, 63, "bytes");
    if !value.is_empty() && !is_qualified(value) {
        wrong.push(shape(LABEL_VALUE_TEXT, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

/// A text that may stand as one segment of a request's path.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|taboo| name.contains(**taboo)).map(|taboo| format!("may not contain '{taboo}'")).collect()
}

/// The unit differs between kinds of names; it is bytes that are counted.
fn too_long(name: &str, most: usize, unit: &str) -> Vec<String> {
    if name.len() > most { vec![limit(most, unit)] } else { Vec::new() }
}

fn limit(most: usize, unit: &str) -> String {
    format!("must be no more than {most} {unit}")
}

fn shape(text: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    format!("{text} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or "))
}

fn is_label(name: &str) -> bool {
    let inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let bytes = name.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => inner(*first) && inner(*last) && bytes.iter().all(|letter| inner(*letter) || *letter == b'-'),
        _ => false,
    }
}

fn is_qualified(name: &str) -> bool {
    let bytes = name.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(letter))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_do_not() {
        for (check, good, bad) in [
            (dns1123_label as fn(&str) -> Vec<String>, vec!["a", "1-b"], vec!["", "A", "a.b", "-a", "a-"]),
            (dns1123_subdomain, vec!["a.b", "1.2"], vec!["", "a..b", "a.B", ".a"]),
            (dns1035_label, vec!["a1"], vec!["1a", ""]),
            (qualified_name, vec!["a", "x.y/A_b", "A.b"], vec!["", "/a", "a/", "a/b/c", "X/a", "-a"]),
            (label_value, vec!["", "A_b.c"], vec!["-", "a b"]),
            (path_segment, vec!["a", "..."], vec![".", "..", "a/b", "50%"]),
        ] {
            for name in good {
                assert!(check(name).is_empty(), "{name}");
            }
            for name in bad {
                assert!(!check(name).is_empty(), "{name}");
            }
        }
    }

    /// KAPI-REST-04: the words are those of Kubernetes.
    #[test]
    fn complaints_read_as_upstream() {
        assert_eq!(
            dns1035_label("V_1"),
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }
}
