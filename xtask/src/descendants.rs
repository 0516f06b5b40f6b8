//! The processes that a process started, and those that they started.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

/// How often what was left behind is looked for.
const ROUNDS: usize = 5;

/// Kills the process `root` and all its descendants. A process group of their own would not end
/// with the terminal. So the tests stay in the group of the process that started them, and are
/// found by their parents.
pub(crate) fn kill(root: u32) -> Result<()> {
    end(&family(root)?);
    Ok(())
}

/// From now on, descendants whose parents have ended are children of this process, and do not
/// outlive it unseen.
pub(crate) fn adopt() -> Result<()> {
    set_child_subreaper(Some(own_pid())).context("cannot adopt what test programs leave behind")
}

/// Lets go of adopted processes that have ended. All children but `own` are adopted.
pub(crate) fn reap(own: u32) -> Result<()> {
    let this = std::process::id();
    for (id, _) in parents()?.into_iter().filter(|&(id, of)| of == this && id != own) {
        // One that has not ended stays as it is.
        let _ = pid(id).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
    Ok(())
}

/// Kills all descendants of this process, and returns the names of their programs.
pub(crate) fn kill_adopted() -> Result<Vec<String>> {
    let mut names = Vec::new();
    // One that starts others while it is killed is met again.
    for _ in 0..ROUNDS {
        let left: Vec<u32> = family(std::process::id())?.into_iter().skip(1).collect();
        let living = left.iter().filter_map(|id| name(*id));
        let before = names.len();
        names.extend(living);
        if names.len() == before {
            break;
        }
        end(&left);
        reap(0)?;
    }
    Ok(names)
}

/// A process and all its descendants.
fn family(root: u32) -> Result<Vec<u32>> {
    let parents = parents().context("cannot read /proc")?;
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(id, _)| *id));
        at += 1;
    }
    Ok(found)
}

fn end(processes: &[u32]) {
    for pid in processes.iter().filter_map(|id| pid(*id)) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

fn own_pid() -> Pid {
    rustix::process::getpid()
}

/// The name of a program that has not ended.
fn name(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    (!tail.trim_start().starts_with('Z')).then(|| head.rsplit_once('(').map(|(_, name)| name.to_owned()))?
}

/// The parent of every process.
fn parents() -> Result<BTreeMap<u32, u32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            parents.insert(id, parent);
        }
    }
    Ok(parents)
}

/// The fourth field; the second is a name in brackets that may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_does_not_hide_the_parent() {
        assert_eq!(parent("12 (a) S 9 (b) S 34 12 12"), Some(34));
        assert_eq!(parent("12 sh"), None);
    }

    #[test]
    fn the_children_of_children_end_too() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        assert_eq!(parents().unwrap().get(&sleeper), Some(&shell.id()));
        kill(shell.id()).unwrap();
        shell.wait().unwrap();
        // Its end of the pipe closes with it.
        line.clear();
        assert_eq!(std::io::BufRead::read_line(&mut output, &mut line).unwrap(), 0);
    }
}
