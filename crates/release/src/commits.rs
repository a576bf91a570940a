//! The source code of images: where it is cloned from, and what the log of its merges says (CVO-RELI-03, CVO-RELX-02).

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_golang::quote;
use regex::Regex;

/// The format of a log: hash and parents, time, subject and body of each commit.
pub const LOG_FORMAT: &str = "--pretty=format:%H %P%x1E%ct%x1E%s%x1E%b";
/// The protocols that source code is fetched by.
pub const PROTOCOLS: [&str; 4] = ["https", "http", "ssh", "git"];
/// The longest commit hash, in characters.
const MAX_HASH: usize = 64;

/// Source code that cannot be found, or a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitsError {
    /// A source location that git may not be asked for: it comes from an image.
    #[error("The source repository cannot be parsed {}: it is no address of a git repository (https, http, ssh, git or USER@HOST:PATH)", quote(.0))]
    Location(String),
    /// A commit that is no hash.
    #[error("commit {} is no hash", quote(.0))]
    Hash(String),
    /// A line of a log has other columns.
    #[error("unexpected git log output width {0} columns")]
    Columns(usize),
    /// A commit has no time.
    #[error("unexpected timestamp: {}", quote(.0))]
    Time(String),
    /// The number of a pull request is too large.
    #[error("could not extract PR number from {}", quote(.0))]
    PullRequest(String),
    /// An expression cannot be compiled.
    #[error("messages of commits cannot be read: {0}")]
    Expression(String),
}

/// The address of a repository, as an image names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The address for git.
    pub address: String,
    /// The host.
    pub host: String,
    /// The path, with its slash.
    pub path: String,
}

impl Location {
    /// Reads an address. Images come from others: what makes git run programs, read local files, or leave a folder is refused.
    ///
    /// # Errors
    /// It is no address of a repository of another machine.
    pub fn parse(text: &str) -> Result<Self, CommitsError> {
        let refused = || CommitsError::Location(text.to_owned());
        let (host, path) = if let Some((scheme, rest)) = text.split_once("://") {
            let (host, path) = rest.split_once('/').filter(|_| PROTOCOLS.contains(&scheme)).ok_or_else(refused)?;
            (host.rsplit_once('@').map_or(host, |(_, host)| host), path)
        } else {
            let (user, rest) = text.split_once('@').ok_or_else(refused)?;
            let is_user = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            let place = rest.split_once(':').filter(|_| !user.is_empty() && !user.starts_with('-') && user.chars().all(is_user));
            place.ok_or_else(refused)?
        };
        let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-:_".contains(letter);
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
        let is_part = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.contains(['\\', '\0']);
        let fits = !host.is_empty() && !host.starts_with(['-', '.']) && host.chars().all(is_host) && path.split('/').all(is_part);
        if !fits || text.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(refused());
        }
        Ok(Self { address: text.to_owned(), host: host.to_owned(), path: format!("/{path}") })
    }

    /// The folder of a clone below that of all clones.
    pub fn folder(&self) -> String {
        format!("{}{}", self.host, self.path.strip_suffix(".git").unwrap_or(&self.path))
    }

    /// The name of the remote in a clone: the same for the same address.
    pub fn remote(&self) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(self.address.as_bytes());
        digest.iter().take(5).fold("up-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
    }

    /// Returns true if its pages are known.
    pub fn is_github(&self) -> bool {
        self.host == "github.com"
    }
}

/// Checks that a text is the hash of a commit, so that git takes it for nothing else.
///
/// # Errors
/// It is none.
pub fn check_hash(text: &str) -> Result<&str, CommitsError> {
    let fits = (4..=MAX_HASH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits { Ok(text) } else { Err(CommitsError::Hash(text.to_owned())) }
}

/// The system that a bug or an issue is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracker {
    /// Bugzilla.
    Bugzilla,
    /// Jira.
    Jira,
}

/// A bug or an issue that a commit mentions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    /// Its number or key.
    pub id: String,
    /// Where it is kept.
    pub tracker: Tracker,
}

impl Mention {
    /// Its page.
    pub fn page(&self) -> String {
        match self.tracker {
            Tracker::Bugzilla => format!("https://bugzilla.redhat.com/show_bug.cgi?id={}", self.id),
            Tracker::Jira => format!("https://issues.redhat.com/browse/{}", self.id),
        }
    }

    /// Returns true if it is a bug, and no other issue.
    pub fn is_bug(&self) -> bool {
        self.tracker == Tracker::Bugzilla || ["OCPBUGS-", "OCPBUGSM-"].iter().any(|project| self.id.starts_with(project))
    }
}

/// The merge of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Its hash.
    pub commit: String,
    /// Its time.
    pub time: Timestamp,
    /// The number of the pull request.
    pub pull_request: u64,
    /// The bugs that it mentions, sorted.
    pub mentions: Vec<Mention>,
    /// Its subject, in one line.
    pub subject: String,
}

/// The kind of merges that a repository has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Merge commits, whose body begins with the title of the pull request.
    Merge,
    /// One commit for each pull request, whose subject is the title.
    Squash,
}

/// Reads the log of a repository (`git log -z` with [`LOG_FORMAT`]); commits of no pull request are left out.
///
/// # Errors
/// The log has another form.
pub fn read_log(log: &str, merging: Merging) -> Result<Vec<Merge>, CommitsError> {
    if log.is_empty() {
        return Ok(Vec::new());
    }
    let pull_request = Regex::new(match merging {
        Merging::Merge => r"^Merge pull request #([0-9]+) from",
        Merging::Squash => r"[(]#([0-9]+)[)]",
    });
    let (pull_request, mentions) = (pull_request.map_err(|error| CommitsError::Expression(error.to_string()))?, Mentions::new()?);
    let mut merges = Vec::new();
    for entry in log.split('\0') {
        let columns: Vec<&str> = entry.split('\u{1e}').collect();
        let [hashes, time, subject, body] = columns.as_slice() else { return Err(CommitsError::Columns(columns.len())) };
        let seconds: i64 = time.parse().map_err(|_| CommitsError::Time((*time).to_owned()))?;
        let time = Timestamp::from_second(seconds).map_err(|_| CommitsError::Time((*time).to_owned()))?;
        let Some(number) = pull_request.captures(subject).and_then(|found| found.get(1)) else { continue };
        let (found, rest) = mentions.take(if merging == Merging::Squash { subject } else { body });
        let line = rest.trim().lines().next().unwrap_or_default();
        merges.push(Merge {
            commit: hashes.split(' ').next().unwrap_or_default().to_owned(),
            time,
            pull_request: number.as_str().parse().map_err(|_| CommitsError::PullRequest((*subject).to_owned()))?,
            mentions: found,
            subject: if line.is_empty() { "Merge".to_owned() } else { line.to_owned() },
        });
    }
    Ok(merges)
}

/// The beginnings of titles that mention bugs and issues.
struct Mentions {
    prefix: Regex,
    bugs: Regex,
    issues: Regex,
}

impl Mentions {
    fn new() -> Result<Self, CommitsError> {
        let compiled = |text: &str| Regex::new(text).map_err(|error| CommitsError::Expression(error.to_string()));
        Ok(Self {
            prefix: compiled(r"^(?:\[[0-9A-Za-z_.-]+\][\t\n\f\r ]*)+")?,
            bugs: compiled(r"^[B|b]ugs?[\t\n\f\r ]([0-9\t\n\f\r ,]+)[-:][\t\n\f\r ]*")?,
            issues: compiled(r"^(?:[A-Z]+-[0-9]+[\t\n\f\r ,]*)+[-:][\t\n\f\r ]*")?,
        })
    }

    /// Returns what a title mentions at its beginning, sorted, and the rest of it.
    fn take<'t>(&self, title: &'t str) -> (Vec<Mention>, &'t str) {
        let title = title.trim();
        let title = self.prefix.find(title).map_or(title, |prefix| &title[prefix.end()..]);
        let (tracker, whole, list) = if let Some(bugs) = self.bugs.captures(title) {
            (Tracker::Bugzilla, bugs.get(0), bugs.get(1).map(|list| list.as_str()))
        } else {
            let issues = self.issues.find(title);
            (Tracker::Jira, issues, issues.map(|issues| issues.as_str().trim().trim_end_matches([':', '-'])))
        };
        let (Some(whole), Some(list)) = (whole, list) else { return (Vec::new(), title) };
        let ids = list.split([',', ' ', '\t', '\n', '\r', '\u{c}']).filter(|id| !id.is_empty());
        let mut mentions: Vec<Mention> = ids.map(|id| Mention { id: id.to_owned(), tracker }).collect();
        mentions.sort();
        (mentions, &title[whole.end()..])
    }
}

/// Returns the bugs of merges, each once, sorted.
pub fn bugs<'m>(merges: impl IntoIterator<Item = &'m Merge>) -> Vec<Mention> {
    let mut all = BTreeMap::new();
    for mention in merges.into_iter().flat_map(|merge| &merge.mentions).filter(|mention| mention.is_bug()) {
        all.entry(mention.id.clone()).or_insert_with(|| mention.clone());
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RELI-03, CVO-RELX-02: where clones lie; what an image must not make git do is refused.
    #[test]
    fn locations() {
        for (text, folder, path) in [
            ("https://github.com/acme/widget", "github.com/acme/widget", "/acme/widget"),
            ("https://me:secret@git.test:8443/a/b.git/", "git.test:8443/a/b", "/a/b.git"),
            ("git@github.com:acme/widget.git", "github.com/acme/widget", "/acme/widget.git"),
        ] {
            let location = Location::parse(text).unwrap();
            assert_eq!((location.folder().as_str(), location.path.as_str()), (folder, path), "{text}");
        }
        for text in [
            "",
            "acme/widget",
            "/etc",
            "file:///etc",
            "ext::sh -c id",
            "https://github.com",
            "https://github.com/../x",
            "https:///etc/passwd",
            "https://-x/a",
            "--upload-pack=id@host:path",
            "git@host:../../etc",
            "git@host:-x",
            "https://a.test/b\nc",
            "https://a.test/.git/hooks",
        ] {
            assert_eq!(Location::parse(text), Err(CommitsError::Location(text.to_owned())), "{text}");
        }
        for hash in ["", "abc", "--all", "abcdefg1", "HEAD", "12 34"] {
            assert!(check_hash(hash).is_err(), "{hash}");
        }
        assert!(check_hash("0123456789abcdef0123456789abcdef01234567").is_ok());
    }

    fn entry(subject: &str, body: &str) -> String {
        format!("aaaabbbbcccc dddd eeee\u{1e}1700000000\u{1e}{subject}\u{1e}{body}")
    }

    /// CVO-RELI-03: merges with what they mention, squashed or not; commits of no pull request are left out.
    #[test]
    fn logs() {
        let title = |body: &str| {
            let merges = read_log(&entry("Merge pull request #12 from me/x", body), Merging::Merge).unwrap();
            let ids: Vec<String> = merges[0].mentions.iter().map(|mention| mention.id.clone()).collect();
            (ids.join(" "), merges[0].subject.clone())
        };
        for (body, ids, subject) in [
            ("Bug 123,456 789: Repair it\nmore", "123 456 789", "Repair it"),
            ("bugs 7 - it", "7", "it"),
            ("[release-4.19] [x] OCPBUGS-12,ABC-3 DEF-4: Do", "ABC-3 DEF-4 OCPBUGS-12", "Do"),
            ("NO-JIRA: plain", "", "NO-JIRA: plain"),
            ("plain words", "", "plain words"),
            ("", "", "Merge"),
        ] {
            assert_eq!(title(body), (ids.to_owned(), subject.to_owned()), "{body}");
        }
        let log = [entry("OCPBUGS-1: Add (#34)", ""), entry("direct", ""), entry("Two (#5)", "x")].join("\0");
        let squashed = read_log(&log, Merging::Squash).unwrap();
        let shown: Vec<String> = squashed.iter().map(|merge| format!("{} {}", merge.pull_request, merge.subject)).collect();
        assert_eq!(shown, ["34 Add (#34)", "5 Two (#5)"]);
        assert_eq!(bugs(&squashed).iter().map(|bug| bug.id.as_str()).collect::<Vec<_>>(), ["OCPBUGS-1"]);
        assert_eq!(read_log("", Merging::Merge), Ok(Vec::new()));
        assert_eq!(read_log("x\u{1e}1", Merging::Merge), Err(CommitsError::Columns(2)));
        assert_eq!(read_log("x\u{1e}y\u{1e}\u{1e}", Merging::Merge), Err(CommitsError::Time("y".to_owned())));
        assert!(read_log(&entry("Merge pull request #99999999999999999999 from x", ""), Merging::Merge).is_err());
    }
}
