//! Kernel arguments as options of the tool that sets them.

/// The options that take all old arguments away and add all new ones.
pub fn options(old: &[String], new: &[String]) -> Vec<String> {
    let delete = old.iter().flat_map(|entry| split(entry)).map(|argument| format!("--delete={argument}"));
    let append = new.iter().flat_map(|entry| split(entry)).map(|argument| format!("--append={argument}"));
    delete.chain(append).collect()
}

/// The arguments of an entry, by the kernel's rule: blanks divide them except between double quotes, which cannot be escaped.
pub fn split(entry: &str) -> Vec<&str> {
    let mut arguments = Vec::new();
    let mut start = None;
    let mut in_quotes = false;
    for (at, letter) in entry.char_indices() {
        let is_blank = matches!(letter, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r');
        match start {
            None if is_blank => continue,
            None => start = Some(at),
            Some(from) if is_blank && !in_quotes => {
                arguments.push(entry[from..at].trim());
                start = None;
                continue;
            }
            Some(_) => {}
        }
        if letter == '"' {
            in_quotes = !in_quotes;
        }
    }
    arguments.extend(start.map(|from| entry[from..].trim()));
    arguments
}
