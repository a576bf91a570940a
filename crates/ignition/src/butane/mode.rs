//! Modes that were probably meant in octal.

/// The words about a mode that looks odd, and would not if its digits were octal.
pub(super) fn is_meant_in_octal(mode: i64, is_directory: bool) -> bool {
    let Some(corrected) = as_octal(mode) else { return false };
    !is_usual(mode, is_directory) && is_usual(corrected, is_directory)
}

/// The mode whose octal digits are the decimal ones of this number.
fn as_octal(mode: i64) -> Option<i64> {
    if !(0..=7777).contains(&mode) {
        return None;
    }
    i64::from_str_radix(&mode.to_string(), 8).ok()
}

/// Returns whether a mode is usual.
fn is_usual(mode: i64, is_directory: bool) -> bool {
    if mode == 0 {
        return true;
    }
    let (mut had_read, mut had_write, mut had_execute) = (false, false, false);
    for shift in [0, 3, 6] {
        let permissions = mode >> shift & 7;
        let (read, write, execute) = (permissions & 4 != 0, permissions & 2 != 0, permissions & 1 != 0);
        let lacks_what_others_have = !read && had_read || !write && had_write || !execute && had_execute;
        let others_only_read = execute && had_read && !had_execute;
        if lacks_what_others_have || others_only_read || (write || execute) && !read {
            return false;
        }
        (had_read, had_write, had_execute) = (had_read || read, had_write || write, had_execute || execute);
    }
    if !had_read {
        return false;
    }
    let (set_user, set_user_or_group, set_group_or_sticky, sticky) = (0o4000, 0o6000, 0o3000, 0o1000);
    if is_directory {
        had_execute && mode & set_user == 0 && (mode & set_group_or_sticky == 0 || had_write)
    } else {
        (mode & set_user_or_group == 0 || had_execute && mode & 2 == 0) && mode & sticky == 0
    }
}
