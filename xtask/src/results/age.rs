//! How old the measurement of a claim is, against the history of the code that decides it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::raw::Claim;

/// The commit with which every front end drives the engine of `reel-play`.
const ENGINE_COMMIT: &str = "914feea";
/// The day of that commit. What was measured on this day counts as measured before.
const ENGINE_DATE: &str = "2026-11-23";
/// What a claim that predates the engine is marked with.
pub(crate) const MARK: &str = " †";

/// The crates that decide what a server is measured to do.
const DECIDING: [&str; 7] = [
    "crates/reel-play",
    "crates/reel-cache",
    "crates/reel-qos",
    "crates/reel-disk",
    "crates/reel-admit",
    "crates/reel-http",
    "crates/reel-serve",
];

/// What [`MARK`] means, and how many of `all` claims have it.
pub(crate) fn legend(marked: usize, all: usize) -> String {
    let mark = MARK.trim();
    format!(
        "{mark}: measured before the engine of `reel-play` ({ENGINE_COMMIT}, {ENGINE_DATE}), or nothing shows that it was measured \
         after. These are {marked} of the {all} claims.\n\n"
    )
}

/// Whether nothing shows that the claim was measured with the engine. A claim that was never
/// measured is no such claim. Of commits that git does not know the date decides.
pub(crate) fn predates_engine(root: &Path, claim: &Claim) -> bool {
    let Some(date) = &claim.date else { return false };
    let is_old = |commit: &String| {
        let arguments = ["merge-base", "--is-ancestor", commit, ENGINE_COMMIT];
        git(root, &arguments).is_some()
    };
    !is_after_engine(date) || claim.commits.iter().any(is_old)
}

/// Whether `date` begins with a day after the engine's.
fn is_after_engine(date: &str) -> bool {
    date.starts_with(|c: char| c.is_ascii_digit()) && date.get(..ENGINE_DATE.len()) > Some(ENGINE_DATE)
}

/// A line for each claim that was measured before the newest commit of the deciding crates, or at a
/// commit that nothing shows.
pub(crate) fn outdated(root: &Path, claims: &[Claim]) -> Vec<String> {
    let mut since: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    let mut lines = Vec::new();
    for claim in claims.iter().filter(|claim| claim.date.is_some()) {
        let Claim { result, claim: what, .. } = claim;
        let Some(commit) = claim.commits.first() else {
            lines.push(format!("{result}: {what}: at a commit that was not recorded"));
            continue;
        };
        match since.entry(commit).or_insert_with(|| commits_since(root, commit)) {
            Some(0) => {}
            Some(count) => lines.push(format!("{result}: {what}: at {commit}, {count} commits before")),
            None => lines.push(format!("{result}: {what}: at {commit}, which git does not know")),
        }
    }
    lines
}

/// How many commits have changed the deciding crates since `commit`.
fn commits_since(root: &Path, commit: &str) -> Option<u64> {
    let range = format!("{commit}..HEAD");
    let arguments = [&["rev-list", "--count", &range, "--"], &DECIDING[..]].concat();
    git(root, &arguments)?.trim().parse().ok()
}

/// What git prints; none if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(date: Option<&str>, commit: Option<&str>) -> Claim {
        Claim {
            date: date.map(str::to_owned),
            commits: commit.into_iter().map(str::to_owned).collect(),
            ..Claim::default()
        }
    }

    #[test]
    fn only_a_later_day_and_a_later_commit_are_not_marked() {
        let root = crate::repository().unwrap();
        let predates = |date, commit| predates_engine(&root, &claim(Some(date), commit));
        assert!(!predates("2026-11-24", None) && !predates("2026-11-24", Some("0000000")));
        assert!(predates("2026-11-23", None) && predates("2026-11-21 to 2026-11-24", None));
        assert!(predates("not recorded", None));
        assert!(!predates_engine(&root, &claim(None, None)), "it was never measured");
        let knows_the_engine = git(&root, &["cat-file", "-e", ENGINE_COMMIT]).is_some();
        assert_eq!(predates("2026-11-24", Some(ENGINE_COMMIT)), knows_the_engine);
    }

    #[test]
    fn claims_are_outdated_until_their_commit_is_the_newest_one() {
        let root = crate::repository().unwrap();
        let lines = |commit| outdated(&root, &[claim(Some("2026-11-24"), commit)]);
        assert!(lines(Some("HEAD")).is_empty());
        assert!(lines(None)[0].ends_with("not recorded"));
        assert!(lines(Some("0000000"))[0].ends_with("git does not know"));
        assert!(outdated(&root, &[claim(None, None)]).is_empty());
    }
}
