//! Decisions that an install makes because the request does not say them, each with the sentence that the plan says of it: the channel that is followed, and the namespace
//! that is watched. Pure.

use mainstay_bundle::Bundle;
use mainstay_resolver::Resolution;

/// A decision, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<T> {
    /// What was decided.
    pub value: T,
    /// What the plan says of it.
    pub said: String,
}

/// The namespace that is watched by a bundle that cannot watch all: its own where it can, else `default`.
pub fn watched(bundle: &Bundle, own: &str) -> Option<Choice<String>> {
    if bundle.csv.supports("AllNamespaces") {
        return None;
    }
    let name = &bundle.csv.name;
    if bundle.csv.supports("OwnNamespace") {
        let said = format!("watches namespace {own}, its own: {name} does not support to watch all");
        return Some(Choice { value: own.to_owned(), said });
    }
    // A bundle for one other namespace cannot watch its own.
    let other = "default";
    (bundle.csv.supports("SingleNamespace") && own != other).then(|| Choice {
        value: other.to_owned(),
        said: format!("watches namespace {other} alone: {name} supports to watch one other namespace; --watch-namespace chooses which"),
    })
}

/// The channel that is followed: the package's default, where it has something that fits. `free` is what would be chosen without a channel,
/// `within` what the default channel has.
pub fn followed(package: &str, default: Option<&str>, free: &Resolution, within: Option<&Resolution>) -> Choice<Option<String>> {
    let other = |bundle: &str| format!("{bundle} is the newest of all channels");
    match (default, within) {
        (Some(channel), Some(within)) => {
            let newer =
                if within.choice.bundle == free.choice.bundle { String::new() } else { format!("; {}", other(&free.choice.bundle)) };
            let said = format!("follows channel {channel}, the default of package {package}{newer}; --channel chooses another");
            Choice { value: Some(channel.to_owned()), said }
        }
        (Some(channel), None) => {
            let said = format!(
                "follows no channel: the default channel {channel} of package {package} has nothing that fits; {}",
                other(&free.choice.bundle)
            );
            Choice { value: None, said }
        }
        (None, _) => {
            Choice { value: None, said: format!("follows no channel: package {package} names no default; {}", other(&free.choice.bundle)) }
        }
    }
}
