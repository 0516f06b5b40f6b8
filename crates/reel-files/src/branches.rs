//! The branches of a stream that the server plays into destinations. Pure.

use crate::limits::BRANCHES_MAX;
use crate::node::BranchFile;
use crate::outlets::OutletFacts;
use crate::problem::Problem;
use rustix::io::Errno;
use std::sync::Arc;

/// The branches of a stream, by number. They are shown until the stream is joined again.
#[derive(Debug, Default)]
pub(crate) struct Branches(Vec<Branch>);

#[derive(Debug, Default)]
struct Branch {
    /// Empty until it is written.
    dest: Arc<str>,
    /// What is to take the place of that, if the server can do so.
    next_dest: Option<Arc<str>>,
    /// The server is asked for an outlet.
    is_asking: bool,
    /// What the server said last of its outlet, once there is one.
    facts: Option<OutletFacts>,
}

/// How far all of them are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Some get bytes, or the server is asked for them.
    Moving,
    /// All have ended, and at least one got everything.
    Complete,
    /// All have ended before, the first one for this reason.
    Ended(String),
}

/// The words of the API for the state of an outlet.
const JOINED: &str = "joined";
const COMPLETE: &str = "complete";

/// Why a branch has ended that the server does not list any more.
const UNLISTED: &str = "the server does not know it any more; perhaps the server was restarted";

impl Branches {
    /// A further branch, without a destination. Returns its number.
    ///
    /// # Errors
    /// There are too many (`ENOSPC`).
    pub(crate) fn split(&mut self) -> Result<usize, Problem> {
        if self.0.len() >= BRANCHES_MAX {
            return Err(Problem::new(Errno::NOSPC, format!("a stream has at most {BRANCHES_MAX} branches")));
        }
        self.0.push(Branch::default());
        Ok(self.0.len() - 1)
    }

    /// A branch is to have this destination. The caller asks the server, and says
    /// [`Branches::has`]. Returns the outlet whose destination it is to replace, if the branch has
    /// one.
    ///
    /// # Errors
    /// It has ended, or the server is asked already.
    pub(crate) fn goes_to(&mut self, number: usize, dest: &str) -> Result<Option<u64>, Problem> {
        let branch = self.0.get_mut(number).ok_or_else(Problem::gone)?;
        if branch.is_asking {
            return Err(Problem::busy("the server is asked for the destination of this branch"));
        }
        let replaces = match &branch.facts {
            None => {
                branch.dest = dest.into();
                None
            }
            Some(facts) if facts.state == JOINED => {
                branch.next_dest = Some(dest.into());
                Some(facts.number)
            }
            Some(facts) => {
                let text = format!("the branch is {}; `split` makes another branch", facts.state);
                return Err(Problem::busy(text));
            }
        };
        branch.is_asking = true;
        Ok(replaces)
    }

    /// The server has given a branch an outlet, or another destination; `None` if it has refused
    /// that. What a branch had it keeps then.
    pub(crate) fn has(&mut self, number: usize, facts: Option<OutletFacts>) {
        let Some(branch) = self.0.get_mut(number) else { return };
        branch.is_asking = false;
        match (facts, branch.next_dest.take()) {
            (None, Some(_)) => {}
            (None, None) => branch.dest = Arc::default(),
            (Some(facts), next_dest) => {
                branch.dest = next_dest.unwrap_or_else(|| Arc::clone(&branch.dest));
                branch.facts = Some(facts);
            }
        }
    }

    /// What the server says of its outlets.
    pub(crate) fn told(&mut self, outlets: &[OutletFacts]) {
        for facts in self.0.iter_mut().filter_map(|branch| branch.facts.as_mut()) {
            match outlets.iter().find(|outlet| outlet.number == facts.number) {
                Some(outlet) => facts.clone_from(outlet),
                // Others have taken its place in the list, since it has ended.
                None if facts.state == JOINED => {
                    "ended".clone_into(&mut facts.state);
                    facts.reason = Some(UNLISTED.to_owned());
                }
                None => {}
            }
        }
    }

    /// How far they are.
    pub(crate) fn progress(&self) -> Progress {
        let all = || self.0.iter().filter_map(|branch| branch.facts.as_ref());
        let is_moving = |branch: &Branch| {
            branch.is_asking || branch.facts.as_ref().is_some_and(|facts| facts.state == JOINED)
        };
        if self.0.iter().any(is_moving) {
            Progress::Moving
        } else if all().any(|facts| facts.state == COMPLETE) {
            Progress::Complete
        } else {
            let reason = all().find_map(|facts| facts.reason.clone());
            Progress::Ended(reason.unwrap_or_else(|| "no branch got any bytes".to_owned()))
        }
    }

    /// The byte of the file where the foremost one is.
    pub(crate) fn byte(&self) -> Option<u64> {
        let facts = self.0.iter().filter_map(|branch| branch.facts.as_ref());
        facts.map(|facts| facts.from_byte.saturating_add(facts.bytes)).max()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value of one of the files of a branch; `None` if there is no such branch.
    pub(crate) fn value(&self, number: usize, file: BranchFile) -> Option<String> {
        let branch = self.0.get(number)?;
        let facts = branch.facts.as_ref();
        Some(match file {
            BranchFile::Dest => (*branch.dest).to_owned(),
            BranchFile::State => match facts {
                Some(facts) => facts.state.clone(),
                None if branch.is_asking => "starting".to_owned(),
                None => "new".to_owned(),
            },
            BranchFile::Bytes => facts.map_or(0, |facts| facts.bytes).to_string(),
            BranchFile::Late => facts.map_or(0, |facts| facts.late_bytes).to_string(),
            BranchFile::Run => facts.map_or(0, |facts| facts.run_bytes).to_string(),
            BranchFile::Pause => format!("{:.3}", facts.map_or(0.0, |facts| facts.pause_ms)),
            BranchFile::Error => facts.and_then(|facts| facts.reason.clone()).unwrap_or_default(),
        })
    }
}
