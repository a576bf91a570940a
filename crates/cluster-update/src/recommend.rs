//! The screen of `oc adm upgrade recommend` (CVO-RCMD-01 to CVO-RCMD-03).

use std::collections::BTreeMap;

use mainstay_golang::quote;
use mainstay_versions::Version;
use serde_json::Value;

use crate::cluster_version::{Condition, list, sort_by_version, text};
use crate::precheck::Check;
use crate::screen::{Screen, indented};
use crate::tabs::{Layout, aligned};

/// The releases of a minor version that are shown unless all are asked for.
const NEWEST: usize = 2;
const NO_ISSUES: &str = "no known issues relevant to this cluster";
const HEADER: [&str; 2] = ["  VERSION", "ISSUES"];
const COLUMNS: Layout = Layout { least: 14, gap: 1 };

/// The releases that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The newest of each minor version, with their issues at length.
    #[default]
    Newest,
    /// All.
    All,
    /// One.
    One(String),
}

/// A request for recommendations that cannot be answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecommendRefusal {
    /// All and one were asked for.
    #[error("when --version is set, --show-outdated-releases is unnecessary")]
    Both,
    /// The version is none.
    #[error("cannot parse SemVer target {}: {error}", quote(.version))]
    Version {
        /// The version.
        version: String,
        /// The rule that it breaks.
        error: mainstay_versions::Error,
    },
    /// There is no update to it.
    #[error("no update{} available, so cannot display context for the requested release{}", .to, .release)]
    NoUpdate {
        /// Where updates were looked for.
        to: String,
        /// The release, if it is not named yet.
        release: String,
        /// The text that is printed before.
        screen: Box<Screen>,
    },
}

/// An update that the cluster could take, with what is known of it.
#[derive(Clone, Debug)]
struct Update<'a> {
    version: Version,
    release: &'a Value,
    /// Risks: what they say, by name.
    risks: Vec<(String, String)>,
    /// The verdict of the service; none if the service says nothing of it.
    verdict: Option<Verdict>,
}

#[derive(Clone, Debug)]
struct Verdict {
    status: String,
    reason: String,
    message: String,
}

impl Shown {
    /// Reads the two flags.
    ///
    /// # Errors
    /// Both are given, or the version is none.
    pub fn new(outdated: bool, version: Option<&str>) -> Result<Self, RecommendRefusal> {
        match version.filter(|version| !version.is_empty()) {
            None if outdated => Ok(Self::All),
            None => Ok(Self::Newest),
            Some(_) if outdated => Err(RecommendRefusal::Both),
            Some(version) => match Version::parse(version) {
                Ok(parsed) => Ok(Self::One(parsed.to_string())),
                Err(error) => Err(RecommendRefusal::Version { version: version.to_owned(), error }),
            },
        }
    }
}

impl RecommendRefusal {
    /// The text that is printed before the refusal.
    pub fn screen(&self) -> Option<&Screen> {
        match self {
            Self::NoUpdate { screen, .. } => Some(screen),
            Self::Both | Self::Version { .. } => None,
        }
    }
}

/// Shows the updates of a ClusterVersion, and what was found beforehand if it was looked for.
///
/// # Errors
/// The one release that is asked for is no update.
pub fn recommend(cluster_version: &Value, shown: &Shown, checks: Option<&[Check]>) -> Result<Screen, RecommendRefusal> {
    let (spec, status) = (&cluster_version["spec"], &cluster_version["status"]);
    let mut screen = Screen::default();
    let condition = |name: &str| Condition::find(&status["conditions"], name);
    match condition("Failing") {
        None => screen.warn("No current Failing info, see `oc describe clusterversion` for more details."),
        Some(failing) if failing.status() == "False" => {}
        Some(failing) => screen.say(block("Failing", failing.status(), failing.reason(), failing.message())),
    }
    let progressing = condition("Progressing").filter(|condition| condition.status() == "True" && !condition.message().is_empty());
    if let Some(progressing) = progressing {
        screen.say(format_args!(
            "info: An update is in progress.  You may wish to let this update complete before requesting a new update.\n  {}\n",
            indented(progressing.message())
        ));
    }
    if let Some(checks) = checks {
        say_checks(&mut screen, checks);
    }
    if let Some(stale) = condition("RetrievedUpdates").filter(|condition| condition.status() != "True") {
        let (reason, message) = (stale.reason(), indented(stale.message()));
        screen.warn(format_args!("Cannot refresh available updates:\n  Reason: {reason}\n  Message: {message}\n"));
    }
    say_channel(&mut screen, spec, status);
    let mut updates = updates(&mut screen, status);
    if let Some(upgradeable) = condition("Upgradeable").filter(|condition| condition.status() == "False") {
        add_upgradeable(&mut screen, &mut updates, text(&status["desired"]["version"]), upgradeable);
    }
    match shown {
        Shown::One(version) => one(&mut screen, &updates, version)?,
        _ if updates.is_empty() => screen.say(
            "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.",
        ),
        _ => {
            for (minor, updates) in minors(&updates).into_iter().rev() {
                say_minor(&mut screen, minor, &updates, *shown == Shown::All);
            }
        }
    }
    Ok(screen)
}

/// A condition and its cause, with an empty line behind it.
fn block(name: &str, status: &str, reason: &str, message: &str) -> String {
    format!("{name}={status}:\n\n  Reason: {reason}\n  Message: {}\n", indented(message))
}

/// The findings before the update (CVO-RCMD-04).
fn say_checks(screen: &mut Screen, checks: &[Check]) {
    let mut happy: Vec<String> =
        checks.iter().filter(|check| check.is_happy()).map(|check| format!("{} ({})", check.name, check.reason)).collect();
    let mut sad: Vec<&str> = checks.iter().filter(|check| !check.is_happy()).map(|check| check.name.as_str()).collect();
    let found = |cause: &str, list: String| {
        format!("The following conditions found {cause} for concern in updating this cluster to later releases: {list}\n")
    };
    if !happy.is_empty() {
        happy.sort();
        screen.say(found("no cause", happy.join(", ")));
    }
    if !sad.is_empty() {
        sad.sort_unstable();
        screen.say(found("cause", sad.join(", ")));
        for check in checks.iter().filter(|check| !check.is_happy()) {
            screen.say(block(&check.name, check.status, &check.reason, &check.message));
        }
    }
}

fn say_channel(screen: &mut Screen, spec: &Value, status: &Value) {
    let channel = text(&spec["channel"]);
    if channel.is_empty() {
        return;
    }
    match text(&spec["upstream"]) {
        "" => screen.say("Upstream update service is unset, so the cluster will use an appropriate default."),
        upstream => screen.say(format_args!("Upstream update service: {upstream}")),
    }
    let channels: Vec<&str> = list(&status["desired"]["channels"]).iter().map(text).collect();
    let available = if channels.is_empty() { String::new() } else { format!(" (available channels: {})", channels.join(", ")) };
    screen.say(format_args!("Channel: {channel}{available}"));
}

/// Reads the updates: conditional ones first, then those that are recommended for every cluster.
fn updates<'a>(screen: &mut Screen, status: &'a Value) -> Vec<Update<'a>> {
    let conditional = list(&status["conditionalUpdates"]);
    let images: Vec<&str> = conditional.iter().map(|update| text(&update["release"]["image"])).collect();
    let available = list(&status["availableUpdates"]).iter().filter(|release| !images.contains(&text(&release["image"])));
    let all = conditional.iter().map(|update| (&update["release"], Some(update))).chain(available.map(|release| (release, None)));
    let mut updates = Vec::new();
    for (release, update) in all {
        let version = match Version::parse(text(&release["version"])) {
            Ok(version) => version,
            Err(error) => {
                screen.warn(format_args!("Cannot parse SemVer available update {}: {error}", quote(text(&release["version"]))));
                continue;
            }
        };
        let risks = update.map_or(&[][..], |update| list(&update["risks"]));
        let risks = risks.iter().map(|risk| (text(&risk["name"]).to_owned(), text(&risk["message"]).to_owned())).collect();
        let verdict = update.and_then(|update| Condition::find(&update["conditions"], "Recommended")).map(|condition| Verdict {
            status: condition.status().to_owned(),
            reason: condition.reason().to_owned(),
            message: condition.message().to_owned(),
        });
        updates.push(Update { version, release, risks, verdict });
    }
    updates
}

/// Adds the cluster's own refusal as a risk of every update to a newer minor version (CVO-RCMD-03).
fn add_upgradeable(screen: &mut Screen, updates: &mut [Update<'_>], version: &str, upgradeable: Condition<'_>) {
    let current = match Version::parse(version) {
        Ok(current) => (current.major(), current.minor()),
        Err(error) => {
            let (reason, message) = (upgradeable.reason(), indented(upgradeable.message()));
            screen.warn(format_args!(
                "Cannot inject Upgradeable=False as a conditional update risk: cannot parse SemVer version {}: {error}\n\nReason: {reason}\n  Message: {message}\n",
                quote(version)
            ));
            return;
        }
    };
    let (reason, message) = (upgradeable.reason(), upgradeable.message());
    let newer = |update: &&mut Update<'_>| (update.version.major(), update.version.minor()) > current;
    for update in updates.iter_mut().filter(newer) {
        // The service may know the same already.
        if update.risks.iter().any(|(_, known)| known.contains(message)) {
            continue;
        }
        update.risks.push(("UpgradeableFalse".to_owned(), message.to_owned()));
        let (reason, message) = match &update.verdict {
            Some(verdict) if verdict.status != "True" => ("MultipleReasons", format!("{message}\n\n{}", verdict.message)),
            _ => (reason, message.to_owned()),
        };
        update.verdict = Some(Verdict { status: "False".to_owned(), reason: reason.to_owned(), message });
    }
}

impl Update<'_> {
    /// Returns why it is not recommended, or not known to be.
    fn issue(&self) -> Option<Verdict> {
        if self.risks.is_empty() {
            return None;
        }
        if let Some(verdict) = &self.verdict {
            return Some(verdict.clone()).filter(|verdict| verdict.status != "True");
        }
        let mut names: Vec<&str> = self.risks.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let (version, names) = (text(&self.release["version"]), names.join(", "));
        Some(Verdict {
            status: "Unknown".to_owned(),
            reason: "NoConditions".to_owned(),
            message: format!("Conditional update to {version} has risks ({names}), but no conditions."),
        })
    }
}

/// The updates by minor version, the newest of each first.
fn minors<'u, 'a>(updates: &'u [Update<'a>]) -> BTreeMap<(u64, u64), Vec<&'u Update<'a>>> {
    let mut minors = BTreeMap::<_, Vec<_>>::new();
    for update in updates {
        minors.entry((update.version.major(), update.version.minor())).or_default().push(update);
    }
    for updates in minors.values_mut() {
        sort_by_version(updates, |update| text(&update.release["version"]));
    }
    minors
}

fn one(screen: &mut Screen, updates: &[Update<'_>], version: &str) -> Result<(), RecommendRefusal> {
    if let Some(update) = updates.iter().find(|update| text(&update.release["version"]) == version) {
        let (image, url) = (text(&update.release["image"]), text(&update.release["url"]));
        let place = format!("Image: {image}\nRelease URL: {url}");
        screen.say(match update.issue() {
            None => format!("\nUpdate to {version} has {NO_ISSUES}.\n{place}"),
            Some(Verdict { status, reason, message }) => {
                format!("\nUpdate to {version} Recommended={status}:\n{place}\nReason: {reason}\nMessage: {}", indented(&message))
            }
        });
        return Ok(());
    }
    let screen = Box::new(std::mem::take(screen));
    let named = |to: String| (to, format!(" {version}"));
    // The version was parsed before; without a minor version none of these sentences fits better.
    let (major, minor) = Version::parse(version).map_or((0, 0), |version| (version.major(), version.minor()));
    let (to, release) = if updates.is_empty() {
        named("s".to_owned())
    } else if !updates.iter().any(|update| update.version.major() == major) {
        named(format!("s to {major}"))
    } else if !updates.iter().any(|update| (update.version.major(), update.version.minor()) == (major, minor)) {
        named(format!("s to {major}.{minor}"))
    } else {
        (format!(" to {version}"), String::new())
    };
    Err(RecommendRefusal::NoUpdate { to, release, screen })
}

/// One minor version: its newest releases, those with issues at length; or all in one table.
fn say_minor(screen: &mut Screen, (major, minor): (u64, u64), updates: &[&Update<'_>], all: bool) {
    screen.say(format_args!("\nUpdates to {major}.{minor}:"));
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(HEADER)];
    let mut was_long = false;
    for (at, update) in updates.iter().enumerate() {
        let (issue, version) = (update.issue(), text(&update.release["version"]));
        if was_long || issue.is_some() && !all {
            screen.say("");
            if issue.is_none() && rows.is_empty() {
                rows.push(row(HEADER));
            }
            was_long = false;
        }
        if at == NEWEST && !all {
            let older = updates.len() - NEWEST;
            screen.say(format_args!(
                "And {older} older {major}.{minor} updates you can see with '--show-outdated-releases' or '--version VERSION'."
            ));
            return;
        }
        match issue {
            None => {
                rows.push(row([&format!("  {version}"), NO_ISSUES]));
                if !all {
                    screen.text.push_str(&aligned(&std::mem::take(&mut rows), COLUMNS));
                }
            }
            Some(issue) if all => rows.push(row([&format!("  {version}"), &issue.reason])),
            Some(issue) => {
                screen.say(format_args!("  Version: {version}\n  Image: {}", text(&update.release["image"])));
                screen.say(format_args!("  Reason: {}\n  Message: {}", issue.reason, indented(issue.message.trim())));
                was_long = true;
            }
        }
    }
    if all {
        screen.text.push_str(&aligned(&rows, COLUMNS));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn release(version: &str) -> Value {
        json!({"version": version, "image": format!("r.test/release@{version}"), "url": format!("https://e.test/{version}")})
    }

    fn risky(version: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"release": release(version), "risks": [{"name": "Risk", "message": "Something may break."}],
            "conditions": [{"type": "Recommended", "status": status, "reason": reason, "message": message}]})
    }

    #[allow(clippy::needless_pass_by_value, reason = "they are written where they are given")]
    fn cluster(available: &[&str], conditional: Value, conditions: Value) -> Value {
        let mut all = vec![json!({"type": "Failing", "status": "False"}), json!({"type": "RetrievedUpdates", "status": "True"})];
        all.extend(list(&conditions).iter().cloned());
        json!({"spec": {"channel": "stable-4.18"}, "status": {
            "desired": {"version": "4.18.1", "channels": ["fast-4.18", "stable-4.18"]}, "conditions": all,
            "availableUpdates": available.iter().map(|version| release(version)).collect::<Vec<_>>(), "conditionalUpdates": conditional,
        }})
    }

    fn screen(cluster: &Value, shown: &Shown) -> String {
        recommend(cluster, shown, None).unwrap().text
    }

    const CHANNEL: &str = "Upstream update service is unset, so the cluster will use an appropriate default.\nChannel: stable-4.18 (available channels: fast-4.18, stable-4.18)\n";

    /// CVO-RCMD-01, CVO-RCMD-02: minor versions from the newest on, two releases of each, those with issues at length; all in one table.
    #[test]
    fn tables() {
        let cluster = cluster(
            &["4.18.2", "4.18.10", "4.18.3", "4.19.0"],
            json!([risky("4.19.2", "False", "Bad", " It breaks.\nReally. "), risky("4.19.1", "True", "AsExpected", "fine")]),
            json!([]),
        );
        let expected = "\nUpdates to 4.19:\n\n  Version: 4.19.2\n  Image: r.test/release@4.19.2\n  Reason: Bad\n  Message: It breaks.\n  Really.\n\n\
            \x20 VERSION     ISSUES\n  4.19.1      no known issues relevant to this cluster\nAnd 1 older 4.19 updates you can see with \
            '--show-outdated-releases' or '--version VERSION'.\n\nUpdates to 4.18:\n  VERSION     ISSUES\n  4.18.10     no known issues relevant to this \
            cluster\n  4.18.3      no known issues relevant to this cluster\nAnd 1 older 4.18 updates you can see with '--show-outdated-releases' or \
            '--version VERSION'.\n";
        assert_eq!(screen(&cluster, &Shown::Newest), format!("{CHANNEL}{expected}"));
        let all = "\nUpdates to 4.19:\n  VERSION     ISSUES\n  4.19.2      Bad\n  4.19.1      no known issues relevant to this cluster\n  4.19.0      no \
            known issues relevant to this cluster\n\nUpdates to 4.18:\n  VERSION     ISSUES\n  4.18.10     no known issues relevant to this cluster\n  \
            4.18.3      no known issues relevant to this cluster\n  4.18.2      no known issues relevant to this cluster\n";
        assert_eq!(screen(&cluster, &Shown::All), format!("{CHANNEL}{all}"));
    }

    /// CVO-RCMD-01: what stands before the updates: a failing cluster, an update under way, stale updates; and no updates.
    #[test]
    fn heads() {
        let mut sick = cluster(&[], json!([]), json!([{"type": "Progressing", "status": "True", "message": "Working\nhard"}]));
        sick["status"]["conditions"][0] = json!({"type": "Failing", "status": "True", "reason": "Broken", "message": "one\ntwo"});
        sick["status"]["conditions"][1] = json!({"type": "RetrievedUpdates", "status": "False", "reason": "Away", "message": "gone"});
        sick["spec"] = json!({"channel": "c", "upstream": "https://u.test"});
        sick["status"]["desired"] = json!({"version": "4.18.1"});
        let shown = recommend(&sick, &Shown::Newest, None).unwrap();
        assert_eq!(
            shown.text,
            "Failing=True:\n\n  Reason: Broken\n  Message: one\n  two\n\ninfo: An update is in progress.  You may wish to let this update complete before \
             requesting a new update.\n  Working\n  hard\n\nUpstream update service: https://u.test\nChannel: c\nNo updates available. You may still \
             upgrade to a specific release image with --to-image or wait for new updates to be available.\n"
        );
        assert_eq!(shown.warnings, "warning: Cannot refresh available updates:\n  Reason: Away\n  Message: gone\n\n");
        let bare = recommend(&json!({"status": {"availableUpdates": [release("x"), release("4.1.1")]}}), &Shown::All, None).unwrap();
        assert_eq!(
            bare.warnings,
            "warning: No current Failing info, see `oc describe clusterversion` for more details.\n\
             warning: Cannot parse SemVer available update \"x\": No Major.Minor.Patch elements found\n"
        );
        assert_eq!(bare.text, "\nUpdates to 4.1:\n  VERSION     ISSUES\n  4.1.1       no known issues relevant to this cluster\n");
    }

    /// CVO-RCMD-02: one release at length, and each refusal.
    #[test]
    fn one_release() {
        let cluster = cluster(&["4.18.2"], json!([risky("4.19.2", "Unknown", "Odd", "Who knows.\nNobody.")]), json!([]));
        let one = |version: &str| recommend(&cluster, &Shown::new(false, Some(version))?, None).map(|screen| screen.text);
        assert_eq!(
            one("4.18.2").unwrap(),
            format!(
                "{CHANNEL}\nUpdate to 4.18.2 has no known issues relevant to this cluster.\nImage: r.test/release@4.18.2\nRelease URL: https://e.test/4.18.2\n"
            )
        );
        assert_eq!(
            one("4.19.2").unwrap(),
            format!(
                "{CHANNEL}\nUpdate to 4.19.2 Recommended=Unknown:\nImage: r.test/release@4.19.2\nRelease URL: https://e.test/4.19.2\nReason: Odd\nMessage: \
                 Who knows.\n  Nobody.\n"
            )
        );
        for (version, expected) in [
            ("5.0.0", "no updates to 5 available, so cannot display context for the requested release 5.0.0"),
            ("4.20.0", "no updates to 4.20 available, so cannot display context for the requested release 4.20.0"),
            ("4.18.9", "no update to 4.18.9 available, so cannot display context for the requested release"),
            ("4.18", "cannot parse SemVer target \"4.18\": No Major.Minor.Patch elements found"),
        ] {
            assert_eq!(one(version).unwrap_err().to_string(), expected);
        }
        let none = recommend(&json!({}), &Shown::One("4.1.1".to_owned()), None).unwrap_err();
        assert!(none.screen().unwrap().warnings.contains("No current Failing info"));
        assert_eq!(none.to_string(), "no updates available, so cannot display context for the requested release 4.1.1");
        assert_eq!(Shown::new(true, Some("4.1.1")), Err(RecommendRefusal::Both));
        assert_eq!((Shown::new(true, None), Shown::new(false, Some(""))), (Ok(Shown::All), Ok(Shown::Newest)));
    }

    /// CVO-RCMD-03: a cluster that is not upgradeable has a risk of every newer minor version; risks without conditions are told.
    #[test]
    fn not_upgradeable() {
        let upgradeable = json!([{"type": "Upgradeable", "status": "False", "reason": "Acks", "message": "Acknowledge first."}]);
        let mut no_conditions = risky("4.19.4", "", "", "");
        no_conditions["conditions"] = json!([]);
        let mut known = risky("4.19.5", "False", "Known", "told before");
        known["risks"][0]["message"] = "x Acknowledge first. y".into();
        let conditional = json!([
            risky("4.19.2", "False", "Bad", "It breaks."),
            risky("4.19.3", "True", "AsExpected", "fine"),
            no_conditions,
            known,
            risky("4.18.8", "True", "AsExpected", "")
        ]);
        let cluster = cluster(&["4.18.2", "4.19.0"], conditional.clone(), upgradeable);
        let reasons = |cluster: &Value| -> Vec<String> {
            let text = screen(cluster, &Shown::All);
            text.lines()
                .filter(|line| line.starts_with("  4."))
                .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
                .collect()
        };
        assert_eq!(
            reasons(&cluster),
            ["4.19.5 Known", "4.19.4 Acks", "4.19.3 Acks", "4.19.2 MultipleReasons", "4.19.0 Acks", "4.18.8 no", "4.18.2 no"]
        );
        let told = screen(&cluster, &Shown::One("4.19.2".to_owned()));
        assert!(told.ends_with("Recommended=False:\nImage: r.test/release@4.19.2\nRelease URL: https://e.test/4.19.2\nReason: MultipleReasons\nMessage: Acknowledge first.\n  \n  It breaks.\n"), "{told}");
        let free = self::cluster(&[], conditional, json!([]));
        let told = screen(&free, &Shown::One("4.19.4".to_owned()));
        assert!(
            told.contains("Recommended=Unknown:")
                && told.contains("Reason: NoConditions\nMessage: Conditional update to 4.19.4 has risks (Risk), but no conditions.\n"),
            "{told}"
        );
        let mut odd = cluster.clone();
        odd["status"]["desired"]["version"] = "x".into();
        let warnings = recommend(&odd, &Shown::All, None).unwrap().warnings;
        assert!(
            warnings.contains("Cannot inject Upgradeable=False as a conditional update risk: cannot parse SemVer version \"x\""),
            "{warnings}"
        );
    }
}
