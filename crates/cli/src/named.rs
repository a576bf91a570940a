//! Names on the command line, checked as the API would, before any request to a cluster.

use mainstay_schema::names;
use mainstay_terminal::errors::InvalidArgument;

/// A namespace: a DNS label of RFC 1123.
pub fn namespace(text: &str) -> Result<String, InvalidArgument> {
    checked(text, &names::dns1123_label(text))
}

/// An object: a DNS subdomain of RFC 1123.
pub fn object(text: &str) -> Result<String, InvalidArgument> {
    checked(text, &names::dns1123_subdomain(text))
}

fn checked(text: &str, wrong: &[String]) -> Result<String, InvalidArgument> {
    if wrong.is_empty() { Ok(text.to_owned()) } else { Err(InvalidArgument(wrong.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::{namespace, object};

    /// MS-CLI-02: what the API would refuse is refused at once, in its words.
    #[test]
    fn names_are_checked_as_by_the_api() {
        assert_eq!(namespace("team-a").as_deref(), Ok("team-a"));
        assert!(namespace("team.a").is_err_and(|error| error.to_string().starts_with("a lowercase RFC 1123 label must consist of")));
        assert!(namespace("Bad NS").is_err() && namespace("").is_err() && namespace(&"a".repeat(64)).is_err());
        assert_eq!(object("team.a").as_deref(), Ok("team.a"));
        assert!(object("Team").is_err_and(|error| error.to_string().starts_with("a lowercase RFC 1123 subdomain must consist of")));
    }
}
