//! Hashes in names and labels: `pod-template-hash`.

use serde_json::Value;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
/// Letters and digits that form no words by accident (Kubernetes' safe encoding).
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a pod template, different for every count of collisions.
pub fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash = fnv(OFFSET, template.to_string().as_bytes());
    if let Some(count) = collisions {
        hash = fnv(hash, &(count as u64).to_le_bytes());
    }
    safe(&hash.to_string())
}

fn fnv(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

fn safe(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digits_are_encoded_as_kubernetes_does() {
        assert_eq!(safe("1619364563"), "5b5f7b89b7");
    }

    #[test]
    fn collisions_change_the_hash() {
        let template = json!({"spec": {"containers": []}});
        assert_ne!(template_hash(&template, None), template_hash(&template, Some(1)));
        assert_ne!(template_hash(&template, Some(1)), template_hash(&template, Some(2)));
    }
}
