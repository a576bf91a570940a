//! The static token file: lines of `token,user,uid,"group1,group2"`, for clusters that hand out fixed tokens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mainstay_rbac::UserInfo;

/// Most lines of a file that are read.
const MAX_LINES: usize = 10_000;

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("{}:{line}: {detail}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// The problem.
        detail: &'static str,
    },
}

/// Tokens and whom they stand for. Kept by digest, so that looking one up takes no longer the more of it is right.
#[derive(Debug, Default)]
pub struct StaticTokens(HashMap<[u8; 32], UserInfo>);

impl StaticTokens {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path).map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(line, detail)| TokenFileError::Line { path: path.to_owned(), line, detail })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut tokens = Self::default();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            if number > MAX_LINES {
                return Err((number, "a token file has at most 10000 lines"));
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = fields(line).ok_or((number, "a quote is not closed"))?;
            let [token, user, uid, rest @ ..] = fields.as_slice() else {
                return Err((number, "expected token, user name and user uid"));
            };
            if token.is_empty() {
                return Err((number, "the token is empty"));
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(str::to_owned).collect();
            let user = UserInfo { name: user.clone(), uid: uid.clone(), groups, ..UserInfo::default() };
            tokens.insert(token, user);
        }
        Ok(tokens)
    }

    /// Adds a token.
    pub fn insert(&mut self, token: &str, user: UserInfo) {
        self.0.insert(digest(token), user);
    }

    /// The user that a token stands for.
    pub fn find(&self, token: &str) -> Option<&UserInfo> {
        self.0.get(&digest(token))
    }
}

fn digest(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, token.as_bytes()).as_ref());
    key
}

/// The fields of a line of comma-separated values.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim_end().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields.last_mut()?.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c if fields.last()?.is_empty() && c == ' ' => {}
            c => fields.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// KAPI-AUTH-01: tokens of a file.
    #[test]
    fn file_format() {
        let tokens = StaticTokens::parse("# people\nt1,ann,1,\"devs,ops\"\n\nt2,bob,2\n").unwrap();
        assert_eq!(tokens.find("t1").unwrap().groups, ["devs", "ops"]);
        assert_eq!(tokens.find("t2").unwrap().name, "bob");
        assert!(tokens.find("t3").is_none());
        assert_eq!(StaticTokens::parse("a,b\n").unwrap_err().0, 1);
        assert_eq!(StaticTokens::parse("a,b,c,\"d\nx").unwrap_err(), (1, "a quote is not closed"));
    }
}
