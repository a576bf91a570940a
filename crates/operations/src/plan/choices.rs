//! Decisions that an install makes because the request leaves them open, each with its sentence in the plan: the channel that is followed,
//! and the namespace that is watched. Pure.

use mainstay_bundle::Bundle;
use mainstay_resolver::Resolution;

/// A decision, with its sentence in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<T> {
    /// The decision.
    pub value: T,
    /// The sentence in the plan.
    pub said: String,
}

/// Chooses the namespace that is watched by a bundle that cannot watch all: its own if the bundle can watch that, else `default`.
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

/// Chooses the channel that is followed: the package's default, if it has a bundle that fits. `free` is the choice without a channel,
/// `within` the choice in the default channel.
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
