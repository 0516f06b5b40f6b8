//! The keys of `reel.toml`, and the corrections for wrong ones.

use toml::de::{DeTable, DeValue};

use super::Fault;

/// Every key, with its table; `NAME` stands for the name of a class.
pub(super) const KEYS: &[&str] = &[
    "listen",
    "hosts",
    "base_path",
    "volume",
    "watch",
    "programs_socket",
    "serve_threads",
    "pin_threads",
    "disk_threads",
    "standby",
    "zero_copy",
    "congestion_control",
    "arena_bytes",
    "sessions_max",
    "session_idle_s",
    "bind_sessions_to_address",
    "gateways",
    "proxies",
    "connections_max",
    "log.level",
    "log.format",
    "log.access",
    "upload.max_bytes",
    "upload.spool_dir",
    "upload.ingests_max",
    "casts",
    "classes.NAME.kind",
    "classes.NAME.share_permille",
    "classes.NAME.network_permille",
    "classes.NAME.clients",
    "promise.admission",
    "promise.network_bps",
    "promise.client_share_permille",
    "promise.start_wait_s",
    "tls.listen",
    "tls.certificate",
    "tls.key",
    "tls.generate",
    "tls.http2",
    "nfs.listen",
    "nfs.clients",
    "nfs.portmap",
    "join.clients",
    "join.directory",
    "join.interface",
    "join.live",
    "join.to",
    "join.ttl",
    "experimental.real_time_priority",
    "experimental.driver",
    "experimental.cast_train_packets",
    "experimental.policy",
];

/// Keys that were moved.
const MOVED: &[(&str, &str)] = &[
    ("real_time_priority", "experimental.real_time_priority"),
    ("driver", "experimental.driver"),
    ("disks.policy", "experimental.policy"),
];

/// Finds the first key of `text` that does not exist. The parser that runs later reports text that
/// is not TOML at all.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let Ok(table) = DeTable::parse(text) else { return Ok(()) };
    check_table(text, table.get_ref(), "", "")
}

/// The line (from 1) on which `key` is set, or 0.
pub(super) fn line_of(text: &str, key: &str) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 0 };
    let mut here = table.get_ref();
    let mut line = 0;
    for part in key.split('.') {
        let Some((found, value)) = here.iter().find(|(name, _)| name.get_ref() == part) else { return 0 };
        line = line_at(text, found.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => here = inner,
            _ => break,
        }
    }
    line
}

/// The line (from 1) of a byte offset.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count()
}

/// `prefix` is the path of the table, `known_as` its path in [`KEYS`].
fn check_table(text: &str, table: &DeTable<'_>, prefix: &str, known_as: &str) -> Result<(), Fault> {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        let known = match known_as {
            "classes." => "classes.NAME".to_owned(),
            _ => format!("{known_as}{}", name.get_ref()),
        };
        let inside = format!("{known}.");
        match value.get_ref() {
            DeValue::Table(inner) if KEYS.iter().any(|known| known.starts_with(&inside)) => {
                check_table(text, inner, &format!("{key}."), &inside)?;
            }
            _ if KEYS.contains(&known.as_str()) => {}
            DeValue::Table(inner) if MOVED.iter().any(|(old, _)| old.starts_with(&inside)) => {
                check_table(text, inner, &format!("{key}."), &inside)?;
            }
            // A table's name with a plain value. The parser that runs later reports the expected
            // kind.
            _ if KEYS.iter().any(|known| known.starts_with(&inside)) => {}
            _ => {
                let line = line_at(text, name.span().start);
                return Err(moved(line, &key).unwrap_or_else(|| Fault {
                    line,
                    what: format!("unknown key `{key}`"),
                    help: advice(&key),
                }));
            }
        }
    }
    Ok(())
}

fn moved(line: usize, key: &str) -> Option<Fault> {
    let (_, new) = MOVED.iter().find(|(old, _)| *old == key)?;
    let (table, name) = new.split_once('.')?;
    Some(Fault {
        line,
        what: format!("`{key}` has moved to `{new}`"),
        help: format!("write `{name} = ...` below a line `[{table}]` at the end of the file"),
    })
}

fn advice(key: &str) -> String {
    match nearest(key) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("the keys are {}", KEYS.join(", ")),
    }
}

/// The most similar known key, if any is similar. A right name in the wrong table counts as the
/// most similar.
fn nearest(key: &str) -> Option<&'static str> {
    let name = key.rsplit('.').next().unwrap_or(key);
    if let Some(known) = KEYS.iter().find(|known| known.rsplit('.').next() == Some(name)) {
        return Some(known);
    }
    let distance_to = |known: &str| {
        let known_name = known.rsplit('.').next().unwrap_or(known);
        edit_distance(key, known).min(edit_distance(name, known_name))
    };
    let (distance, known) = KEYS.iter().map(|known| (distance_to(known), *known)).min()?;
    (distance <= 2.max(name.chars().count() / 3)).then_some(known)
}

/// Insertions, deletions, substitutions and swaps of adjacent characters (optimal string
/// alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let cost = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn near_keys_are_found() {
        for (typed, meant) in [
            ("lisetn", "listen"),
            ("serve-threads", "serve_threads"),
            ("session_max", "sessions_max"),
            ("level", "log.level"),
            ("log.fromat", "log.format"),
            ("uploads.max_byte", "upload.max_bytes"),
            ("log.listen", "listen"),
        ] {
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_key_that_has_moved_names_its_new_place() {
        for (text, line, new) in [
            ("driver = \"auto\"\n", 1, "experimental.driver"),
            ("\nreal_time_priority = 1\n", 2, "experimental.real_time_priority"),
            ("[disks]\npolicy = \"fifo\"\n", 2, "experimental.policy"),
        ] {
            let fault = check(text).unwrap_err();
            assert_eq!(fault.line, line);
            assert!(fault.what.ends_with(&format!("has moved to `{new}`")), "{fault:?}");
            assert!(fault.help.contains("[experimental]"), "{fault:?}");
        }
        for (old, new) in MOVED {
            assert!(KEYS.contains(new) && !KEYS.contains(old));
        }
    }

    #[test]
    fn far_keys_get_the_list() {
        assert_eq!(nearest("favourite_colour"), None);
        assert!(advice("favourite_colour").starts_with("the keys are listen, hosts, base_path"));
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = "listen = 1\n[log]\n  level = 2\n";
        assert_eq!(line_of(text, "listen"), 1);
        assert_eq!(line_of(text, "log.level"), 3);
        assert_eq!(line_of(text, "log.format"), 0);
    }

    proptest! {
        #[test]
        fn edit_distance_is_a_metric(a in "[a-d]{0,8}", b in "[a-d]{0,8}") {
            prop_assert_eq!(edit_distance(&a, &b), edit_distance(&b, &a));
            prop_assert_eq!(edit_distance(&a, &b) == 0, a == b);
            prop_assert!(edit_distance(&a, &b) <= a.len().max(b.len()));
        }

        #[test]
        fn any_text_is_checked_without_panic(text in "[a-z\\[\\].= \n\"0-9]{0,80}") {
            let _ = check(&text);
            let _ = line_of(&text, "log.level");
        }
    }
}
