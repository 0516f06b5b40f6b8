//! The library service of a running server: a library over a volume.

use crate::library_service::{GeometryReport, LibraryService, MemberReport, VolumeReport, VolumeState};
use reel_library::{
    AddedStream, IngestError, IngestOptions, Ingested, Input, Library, LibraryError, Poster, PosterKind,
    Progress, Stop, StreamError, SubtitleError, SubtitleFile, TitleSummary, Watcher,
};
use reel_metrics::{MetricsPage, MetricsSource};
use reel_volume::{Volume, WakeOccasion};
use std::path::Path;
use std::sync::Arc;

/// The counters of a volume.
pub struct VolumeMetrics(pub Arc<Volume>);

impl LibraryService for Library {
    fn titles(&self) -> Vec<Arc<TitleSummary>> {
        self.summaries()
    }

    fn title(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError> {
        self.summary(id)
    }

    fn looked_at(&self) {
        self.volume().wake(WakeOccasion::Look);
    }

    fn has(&self, id: &str) -> bool {
        Library::has(self, id)
    }

    fn watcher(&self, dir: &Path) -> Watcher {
        Library::watcher(self, dir)
    }

    fn rename(&self, id: &str, name: &str) -> Result<(), LibraryError> {
        Library::rename(self, id, name)
    }

    fn remove(&self, id: &str) -> Result<(), LibraryError> {
        Library::remove(self, id)
    }

    fn add_subtitles(&self, id: &str, file: &SubtitleFile) -> Result<Vec<String>, SubtitleError> {
        Library::add_subtitles(self, id, file)
    }

    fn add_stream(
        &self,
        id: &str,
        stop: &Stop,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<AddedStream, StreamError> {
        Library::add_stream(self, id, stop, progress)
    }

    fn poster_mark(&self, id: &str) -> Result<(PosterKind, String), LibraryError> {
        Library::poster_mark(self, id)
    }

    fn poster(&self, id: &str) -> Result<Poster, LibraryError> {
        Library::poster(self, id)
    }

    fn probe(&self, input: &Input, stop: &Stop) -> Result<(), IngestError> {
        reel_library::probe(input, stop)
    }

    fn ingest(
        &self,
        inputs: &[Input],
        options: &IngestOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Ingested, IngestError> {
        Library::ingest(self, inputs, options, progress)
    }

    fn free_bytes(&self) -> u64 {
        self.volume().free_bytes()
    }

    fn volume(&self) -> VolumeReport {
        report(Library::volume(self))
    }
}

impl MetricsSource for VolumeMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let counters = self.0.counters();
        for (name, help, counter) in [
            ("reel_volume_rows_verified_total", "Rows read whose checksum matched.", &counters.rows_verified),
            (
                "reel_volume_rows_decoded_total",
                "Rows computed from the other rows of their matrix.",
                &counters.rows_decoded,
            ),
            (
                "reel_volume_rows_computed_total",
                "Rows of parity computed for casts, in place of a read.",
                &counters.rows_computed,
            ),
            ("reel_volume_rows_lost_total", "Rows that could not be read or decoded.", &counters.rows_lost),
            ("reel_volume_rows_written_total", "Rows written, parity included.", &counters.rows_written),
            (
                "reel_volume_checksum_failures_total",
                "Rows read whose checksum did not match.",
                &counters.checksum_failures,
            ),
            ("reel_volume_read_errors_total", "Reads of a member that failed.", &counters.read_errors),
            ("reel_volume_write_errors_total", "Writes of a member that failed.", &counters.write_errors),
            ("reel_volume_commits_total", "Commits of the catalogue.", &counters.commits),
            (
                "reel_volume_members_dropped_total",
                "Members put out of use because they failed to write.",
                &counters.members_dropped,
            ),
            (
                "reel_volume_members_taken_out_total",
                "Members put out of use because they repeatedly failed reads, returned wrong data, or their files were removed.",
                &counters.members_taken_out,
            ),
            (
                "reel_volume_units_repaired_total",
                "Units rewritten because they were not what was written.",
                &counters.units_repaired,
            ),
        ] {
            page.counter(name, help, &[], counter.get());
        }
        let status = self.0.status();
        page.gauge(
            "reel_volume_size_bytes",
            "Bytes of titles that fit in all.",
            &[],
            status.capacity_bytes as f64,
        );
        page.gauge(
            "reel_volume_free_bytes",
            "Bytes of titles that still fit.",
            &[],
            status.free_bytes as f64,
        );
        page.gauge("reel_volume_titles", "Titles.", &[], status.titles as f64);
        page.gauge(
            "reel_volume_members_lost",
            "Members that are not in use.",
            &[],
            self.0.health().lost() as f64,
        );
        // What is there and failed is out, like what never was there; only the volume knows.
        for member in 0..self.0.geometry().width() {
            let is_present = self.0.disks().is_present(member) && self.0.health().writable(member);
            page.gauge(
                "reel_member_present",
                "1 if the member is there and not out of use; one that is being rebuilt is there.",
                &[("member", &member.to_string())],
                f64::from(u8::from(is_present)),
            );
        }
    }
}

fn report(volume: &Volume) -> VolumeReport {
    let status = volume.status();
    let geometry = &status.geometry;
    let lost = volume.health().lost_or_unspared();
    VolumeReport {
        id: status.volume.to_string(),
        writable: status.read_only.is_none(),
        read_only: status.read_only,
        state: match lost {
            0 => VolumeState::Ok,
            _ if lost <= geometry.parity_rows() => VolumeState::Degraded,
            _ => VolumeState::Failed,
        },
        bytes: status.capacity_bytes,
        free_bytes: status.free_bytes,
        titles: status.titles,
        geometry: GeometryReport {
            data_rows: geometry.data_rows(),
            parity_rows: geometry.parity_rows(),
            symbol_bytes: geometry.symbol_bytes(),
            row_symbols: geometry.row_symbols(),
            unit_rows: geometry.unit_rows(),
            unit_bytes: geometry.unit_bytes(),
            stripe_bytes: geometry.stripe_bytes(),
        },
        members: status
            .members
            .iter()
            .map(|finding| MemberReport {
                member: finding.member,
                path: finding.path.display().to_string(),
                state: finding.state.into(),
                in_use: finding.state.in_use(),
                is_suspect: volume.health().suspect(finding.member),
                activity: volume.disks().activity(finding.member).into(),
                text: finding.to_string(),
            })
            .collect(),
    }
}
