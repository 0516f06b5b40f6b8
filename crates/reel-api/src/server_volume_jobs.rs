//! Long work on the volume of a running server.

use crate::{VolumeJobDone, VolumeJobFailed, VolumeJobProgress, VolumeJobs};
use reel_volume::{
    CheckProgress, CheckReport, MemberState, RebuildReport, RepairOptions, Replacement, Volume, VolumeError,
};
use std::path::Path;
use std::sync::Arc;

/// The volume of a server.
pub struct ServerVolumeJobs(pub Arc<Volume>);

/// The members that a rebuild fills, in this order: new or partly filled ones, ones that were
/// missing, ones that failed and may answer again.
const REBUILT: [MemberState; 3] = [MemberState::Rebuilding, MemberState::Stale, MemberState::Failed];

impl VolumeJobs for ServerVolumeJobs {
    fn scrub(
        &self,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        let report = self.0.scrub(RepairOptions::default(), &mut |at| watch(progress(at))).map_err(failed)?;
        if report.complete { Ok(scrubbed(&report)) } else { Err(ended()) }
    }

    fn rebuild(
        &self,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        let members = self.0.status().members;
        let of_state = |state: MemberState| members.iter().filter(move |finding| finding.state == state);
        let lacking: Vec<usize> =
            REBUILT.into_iter().flat_map(of_state).map(|finding| finding.member).collect();
        if lacking.is_empty() {
            return Err(match members.iter().find(|finding| !finding.state.in_use()) {
                Some(finding) => VolumeJobFailed::new(format!("there is nothing to rebuild on: {finding}"))
                    .help("give the member a replacement with replace"),
                None => VolumeJobFailed::new("no member lacks anything")
                    .help("a scrub verifies what the members hold"),
            });
        }
        let mut done = VolumeJobDone::default();
        for member in lacking {
            let report = self
                .0
                .catch_up(member, RepairOptions::default(), &mut |at| watch(progress(at)))
                .map_err(failed)?;
            if !report.complete {
                return Err(ended());
            }
            rebuilt(&report, &mut done);
        }
        Ok(done)
    }

    fn replace(
        &self,
        member: usize,
        path: &Path,
        create: bool,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        // Never by force: a client that reaches the port must not be able to overwrite files of the
        // server.
        let path = path.to_owned();
        let replacement = Replacement { create, ..Replacement::new(member, path) };
        self.0.replace(&replacement).map_err(failed)?;
        // A replacement that is not filled adds no protection.
        self.rebuild(watch)
    }

    fn is_rebuild_unfinished(&self) -> bool {
        !self.0.rebuilding().is_empty() || !self.0.late().is_empty()
    }
}

fn progress(at: CheckProgress) -> VolumeJobProgress {
    VolumeJobProgress { done_bytes: at.bytes_done, total_bytes: at.bytes_total }
}

fn failed(error: VolumeError) -> VolumeJobFailed {
    match error {
        VolumeError::Healthy { member, path } => {
            let what = format!("member {member} ({}) is in use and healthy", path.display());
            VolumeJobFailed::new(what)
                .help("stop the server and use `reel volume replace --replace-healthy` to replace it all the same")
        }
        // The API has no way to overwrite what is there.
        VolumeError::NotEmpty { path, found } => {
            VolumeJobFailed::new(format!("{} {found}", path.display())).help(
                "choose another place, or stop the server and use `reel volume replace --force` to lose what is there",
            )
        }
        VolumeError::IsMember { path, member, volume } => VolumeJobFailed::new(format!(
            "{} is already member {member} of the Reel volume {volume}",
            path.display()
        ))
        .help("choose another place. If that volume is not wanted, stop the server and use `reel volume replace --overwrite-volume`"),
        VolumeError::TooShort { path, needed_bytes, has_bytes } => {
            let path = path.display();
            let what =
                format!("{path} has {has_bytes} bytes and a member of this volume has {needed_bytes}");
            VolumeJobFailed::new(what).help("use a larger disk or a new file")
        }
        VolumeError::NothingThere { path } => {
            VolumeJobFailed::new(format!("there is nothing at {}", path.display())).help(
                "check the path, and whether its disk is mounted; a new file is made in the volume's directory, and elsewhere with \"create\": true",
            )
        }
        other => VolumeJobFailed::new(other.to_string()),
    }
}

fn ended() -> VolumeJobFailed {
    VolumeJobFailed::new("it was ended before it was done; what was done stays done")
}

fn scrubbed(report: &CheckReport) -> VolumeJobDone {
    let repaired: u64 = report.members.iter().map(|member| member.repaired_rows).sum();
    let text = match (report.is_clean(), repaired) {
        (true, 0) => "everything is as it was written".to_owned(),
        (_, 0) => "not everything is as it was written".to_owned(),
        (_, 1) => "one damaged row was repaired".to_owned(),
        (_, rows) => format!("{rows} damaged rows were repaired"),
    };
    let unused = report.members.iter().filter(|member| !member.finding.state.in_use());
    let unused = unused.map(|member| format!("not in use: {}", member.finding));
    let lost = report.titles.iter().filter(|title| title.lost_rows > 0);
    let lost = lost.map(|title| format!("{}: {} rows are lost", title.id, title.lost_rows));
    VolumeJobDone { text, warnings: unused.chain(lost).collect() }
}

fn rebuilt(report: &RebuildReport, done: &mut VolumeJobDone) {
    if !done.text.is_empty() {
        done.text.push_str("; ");
    }
    done.text.push_str(&format!("member {} is in use", report.member));
    if report.unchanged_bytes > 0 {
        let mib = report.written_bytes >> 20;
        done.text.push_str(&format!(" (it was missing for a while; {mib} MiB were written)"));
    }
    if report.lost_rows > 0 {
        done.warnings.push(format!(
            "{} rows could not be computed: `reel volume check` says of which titles",
            report.lost_rows
        ));
    }
}
