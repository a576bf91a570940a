//! The course of a container that nothing runs, as far as its words tell it: `sleep 5; exit 3` ends after five seconds with 3, a server goes on.
//!
//! ```text
//!   image, command, args ──► words ──► a shell's script? ──► its simple commands, one after the other ──► Course
//! ```
//!
//! No program is run and no condition is evaluated: a loop that waits for something is taken for done, a branch for one that succeeds. Words that
//! are not known say nothing ([`Course::Unknown`]).

use std::time::Duration;

use serde_json::Value;

use super::behaviour::LATEST;

/// The longest script that is read, in bytes.
const LONGEST: usize = 16 << 10;
/// Images whose own program is a shell, which ends at once without input, or one that says something and ends.
const ENDS: [&str; 10] = ["busybox", "alpine", "debian", "ubuntu", "fedora", "centos", "ubi8", "ubi9", "bash", "hello-world"];
/// Programs, and subcommands of the images that Kubernetes tests with, that serve until they are stopped.
const SERVES: [&str; 28] = [
    "pause",
    "nginx",
    "httpd",
    "apache2",
    "haproxy",
    "envoy",
    "redis-server",
    "postgres",
    "mysqld",
    "mongod",
    "etcd",
    "memcached",
    "netexec",
    "serve-hostname",
    "test-webserver",
    "guestbook",
    "porter",
    "webhook",
    "liveness",
    "inclusterclient",
    "http-server",
    "port-forward-tester",
    "no-snat-test",
    "no-snat-test-proxy",
    "grpc-health-checking",
    "resource-consumer-controller",
    "sshd",
    "supervisord",
];
const SHELLS: [&str; 6] = ["sh", "bash", "ash", "dash", "ksh", "zsh"];

/// The course of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It runs until it is stopped.
    RunsOn,
    /// It ends by itself.
    Ends {
        /// The exit code.
        code: i32,
        /// The time after its start.
        after: Duration,
    },
    /// The words are those of a program that is not known.
    Unknown,
}

/// Returns the course of a container.
pub(super) fn course(container: &Value) -> Course {
    let list = |name: &str| container[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let (command, arguments) = (list("command"), list("args"));
    let image = container["image"].as_str().unwrap_or_default();
    let is_shell = ENDS.contains(&name_of(image));
    let words: Vec<&str> = command.iter().chain(&arguments).copied().collect();
    match words.first() {
        None if is_shell => Course::Ends { code: 0, after: Duration::ZERO },
        None => Course::RunsOn,
        Some(_) if !command.is_empty() || is_shell => program(&words),
        // Arguments of the image's own program.
        Some(_) => match program(&words) {
            Course::Unknown => Course::RunsOn,
            known => known,
        },
    }
}

/// `registry.example.com:5000/team/busybox:1.36` is `busybox`.
fn name_of(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

/// The course of a program with its arguments.
fn program(words: &[&str]) -> Course {
    let Some((first, rest)) = words.split_first() else { return Course::Unknown };
    let name = first.rsplit('/').next().unwrap_or_default();
    if SHELLS.contains(&name) {
        let is_script = |word: &&str| word.starts_with('-') && word.ends_with('c');
        return match rest.iter().position(is_script).and_then(|at| rest.get(at + 1)) {
            Some(script) => self::script(script),
            None => Course::Unknown,
        };
    }
    let ends = |code: i32| Course::Ends { code, after: Duration::ZERO };
    match name {
        "exec" | "nohup" | "time" | "tini" | "dumb-init" | "--" | "agnhost" => program(rest),
        "true" | ":" => ends(0),
        "false" => ends(1),
        "exit" => rest.first().map_or(Some(0), |code| code.parse::<u8>().ok()).map_or(Course::Unknown, |code| ends(code.into())),
        "sleep" => match rest.iter().map(|word| seconds(word)).sum::<Option<f64>>() {
            Some(all) if rest.is_empty() || all > LATEST.as_secs_f64() => Course::RunsOn,
            Some(all) => Course::Ends { code: 0, after: Duration::from_secs_f64(all) },
            None => Course::Unknown,
        },
        "tail" if rest.iter().any(|word| ["-f", "-F", "--follow"].contains(word) || word.ends_with('f') && word.starts_with('-')) => {
            Course::RunsOn
        }
        name if SERVES.contains(&name) => Course::RunsOn,
        _ => Course::Unknown,
    }
}

/// The seconds of `5`, `0.5`, `5s`, `2m`, `1h`, `1d`, `infinity`.
fn seconds(word: &str) -> Option<f64> {
    if ["inf", "infinity"].contains(&word.to_ascii_lowercase().as_str()) {
        return Some(f64::INFINITY);
    }
    let (number, unit) = word.split_at(word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len()));
    let factor = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    number.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| number * factor)
}

/// The operator between two simple commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Then,
    IfDone,
    IfFailed,
}

/// The course of a shell's script.
fn script(text: &str) -> Course {
    if text.len() > LONGEST {
        return Course::Unknown;
    }
    let (mut code, mut after, mut known) = (0, Duration::ZERO, false);
    let (mut loops, mut stops_at_failure) = (0_usize, false);
    for (joint, mut words) in commands(text) {
        if joint == Joint::IfDone && code != 0 || joint == Joint::IfFailed && code == 0 {
            continue;
        }
        // Variables that are set for one command.
        while words.first().is_some_and(|word| is_assignment(word)) {
            words.remove(0);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let endless = matches!(words.as_slice(), ["while", "true" | ":" | "sleep" | "[1]" | "((1))", ..] | ["until", "false", ..])
            || words.first() == Some(&"while") && words.get(1..4) == Some(&["[", "1", "]"]);
        match words.as_slice() {
            [] => continue,
            _ if endless => return Course::RunsOn,
            ["while" | "until" | "for", ..] => loops += 1,
            ["done", ..] => loops = loops.saturating_sub(1),
            // It is left when what it waits for has come.
            _ if loops > 0 => {}
            // The branch that is taken is not known.
            ["if" | "case", ..] => return Course::Ends { code: 0, after },
            ["set", flags, ..] if flags.starts_with('-') && flags.contains('e') => stops_at_failure = true,
            ["exit"] => return Course::Ends { code, after },
            words => match program(words) {
                Course::RunsOn => return Course::RunsOn,
                Course::Ends { code: ended, after: took } => {
                    (code, after, known) = (ended, after.saturating_add(took), true);
                    if words.first() == Some(&"exit") || stops_at_failure && code != 0 {
                        return Course::Ends { code, after };
                    }
                }
                Course::Unknown => code = 0,
            },
        }
        if after > LATEST {
            return Course::RunsOn;
        }
    }
    if known { Course::Ends { code, after } } else { Course::Unknown }
}

/// `A=b`
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The simple commands of a script, each with what joins it to the one before, in words without quotation marks.
fn commands(text: &str) -> Vec<(Joint, Vec<String>)> {
    let (mut all, mut words, mut word, mut joint) = (Vec::new(), Vec::new(), None::<String>, Joint::Then);
    let (mut quote, mut characters) = (None, text.chars().peekable());
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(mark), c) if c == mark => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                if let Some(next) = characters.next().filter(|next| *next != '\n') {
                    word.get_or_insert_default().push(next);
                }
            }
            (None, c @ ('"' | '\'')) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None, c @ (';' | '\n' | '&' | '|')) => {
                let doubled = matches!(c, '&' | '|') && characters.next_if_eq(&c).is_some();
                words.extend(word.take());
                all.push((joint, std::mem::take(&mut words)));
                joint = match (c, doubled) {
                    ('&', true) => Joint::IfDone,
                    ('|', true) => Joint::IfFailed,
                    _ => Joint::Then,
                };
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push((joint, words));
    // `do` and `then` stand before the first command of a body.
    for (_, words) in &mut all {
        if matches!(words.first().map(String::as_str), Some("do" | "then" | "else" | "{")) {
            words.remove(0);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// KAPI-WL-03: containers end, or go on, as their image and words say.
    #[test]
    fn words_tell_the_course() {
        let ends = |code: i32, seconds: f64| Course::Ends { code, after: Duration::from_secs_f64(seconds) };
        for (image, command, arguments, wanted) in [
            ("nginx", &[][..], &[][..], Course::RunsOn),
            ("registry.k8s.io/pause:3.10", &[], &[], Course::RunsOn),
            ("example.com:5000/team/busybox:1.36", &[], &[], ends(0, 0.0)),
            ("busybox@sha256:00", &["sleep", "3600"], &[], ends(0, 3_600.0)),
            ("busybox", &[], &["sleep", "1m", "0.5"], ends(0, 60.5)),
            ("busybox", &["/bin/sleep", "infinity"], &[], Course::RunsOn),
            ("busybox", &["sleep"], &["2d"], Course::RunsOn),
            ("busybox", &["sh", "-c", "exit 3"], &[], ends(3, 0.0)),
            ("busybox", &["/bin/sh", "-ec"], &["echo \"a; exit 4\"; sleep 5 && exit 7"], ends(7, 5.0)),
            ("busybox", &["sh", "-c", "while true; do sleep 1; done"], &[], Course::RunsOn),
            ("busybox", &["sh", "-c", "until nslookup db; do sleep 2; done; sleep 1"], &[], ends(0, 1.0)),
            ("busybox", &["sh", "-c", "false || exit 2"], &[], ends(2, 0.0)),
            ("busybox", &["sh", "-c", "true || exit 2"], &[], ends(0, 0.0)),
            ("busybox", &["sh", "-c", "false && exit 2"], &[], ends(1, 0.0)),
            ("busybox", &["sh", "-c", "set -e\nfalse\nsleep 9"], &[], ends(1, 0.0)),
            ("busybox", &["sh", "-c", "A=b sleep 2 # exit 9"], &[], ends(0, 2.0)),
            ("busybox", &["sh", "-c", "touch /ready; exec tail -f /dev/null"], &[], Course::RunsOn),
            ("busybox", &["sh", "-c", "if test -e /x; then exit 1; fi"], &[], ends(0, 0.0)),
            ("busybox", &["wget", "example.com"], &[], Course::Unknown),
            ("busybox", &["sh", "-c", "wget example.com"], &[], Course::Unknown),
            ("registry.k8s.io/e2e-test-images/agnhost:2.53", &[], &["netexec", "--http-port=80"], Course::RunsOn),
            ("registry.k8s.io/e2e-test-images/agnhost:2.53", &["/agnhost", "pause"], &[], Course::RunsOn),
            ("tool", &[], &["get", "pods"], Course::RunsOn),
            ("tool", &["/tool", "get", "pods"], &[], Course::Unknown),
            ("tool", &["false"], &[], ends(1, 0.0)),
        ] {
            let container = json!({"image": image, "command": command, "args": arguments});
            assert_eq!(course(&container), wanted, "{container}");
        }
    }

    proptest::proptest! {
        /// Whatever a script holds, it is read to its end.
        #[test]
        fn scripts_are_read(text in "[a-z ;&|'\"\\\\\n#0-9]{0,80}") {
            course(&json!({"image": "busybox", "command": ["sh", "-c", text]}));
        }
    }
}
