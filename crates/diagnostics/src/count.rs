//! Counts in sentences.

/// `1 bundle`, `2 bundles`: a count of something whose plural ends in an s.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_several() {
        let told: Vec<String> = [0, 1, 2].map(|count| counted(count, "custom resource")).into();
        assert_eq!(told, ["0 custom resources", "1 custom resource", "2 custom resources"]);
    }
}
