//! Users and groups as the files of a disk have them: `/etc/passwd`, `/etc/group`, `/etc/shadow`.

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
}

/// A text that is no password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the password hash has a colon, a blank or a control character")]
pub struct PasswordError;

/// Checks that a hash can stand in the file of passwords without being more than a hash.
pub(super) fn check_password(hash: &str) -> Result<(), PasswordError> {
    if hash.chars().all(|letter| letter.is_ascii_graphic() && letter != ':') { Ok(()) } else { Err(PasswordError) }
}

fn line<'f>(file: &'f str, name: &str) -> Option<Vec<&'f str>> {
    file.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields.first() == Some(&name))
}

/// A user by name in the text of `/etc/passwd`.
pub fn account(passwd: &str, name: &str) -> Option<Account> {
    let fields = line(passwd, name)?;
    Some(Account { user: fields.get(2)?.parse().ok()?, group: fields.get(3)?.parse().ok()? })
}

/// The number of a group by name in the text of `/etc/group`.
pub fn group_id(groups: &str, name: &str) -> Option<u32> {
    line(groups, name)?.get(2)?.parse().ok()
}

/// The text of `/etc/shadow` with another hash of a user; none if the user is not in it.
pub fn with_password(shadow: &str, name: &str, hash: &str) -> Option<String> {
    line(shadow, name)?;
    let mut lines = Vec::new();
    for line in shadow.split('\n') {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.first() == Some(&name) && fields.len() > 1 {
            fields[1] = hash;
        }
        lines.push(fields.join(":"));
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// MACH-NODE-10: owners and passwords by the files of the disk.
    #[test]
    fn users_by_the_files() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1001:CoreOS Admin:/home/core:/bin/bash\nbroken\n";
        assert_eq!(account(passwd, "core"), Some(Account { user: 1000, group: 1001 }));
        assert_eq!((account(passwd, "nobody"), account(passwd, "broken")), (None, None));
        assert_eq!(group_id("wheel:x:10:core\ncore:x:1001:\n", "core"), Some(1001));
        let shadow = "root:*:1::\ncore:old:2:0:99999:7:::\n";
        assert_eq!(with_password(shadow, "core", "$6$new").as_deref(), Some("root:*:1::\ncore:$6$new:2:0:99999:7:::\n"));
        assert_eq!(with_password(shadow, "cor", "x"), None);
        for hash in ["a:b", "a\nb", "a b", "ä"] {
            assert_eq!(check_password(hash), Err(PasswordError), "{hash}");
        }
    }
}
