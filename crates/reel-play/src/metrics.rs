//! The counters of engines, sessions and shared units, as the metrics page shows them.

use crate::counters::{PlayCounters, RESOURCES};
use crate::uplink::Uplink;
use reel_admit::Sessions;
use reel_cache::Units;
use reel_library::Library;
use reel_metrics::{MetricsPage, MetricsSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Titles that can be played at once.
pub struct TitleMetrics(pub Arc<Library>);

impl MetricsSource for TitleMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let help = "Titles whose index is in memory, so that their next viewer waits for no disk to begin.";
        page.gauge("reel_titles_open", help, &[], self.0.opened_count() as f64);
    }
}

/// The engines, sessions and units of a server on the metrics page.
pub struct PlayMetrics<T> {
    /// The counters of the engines.
    pub counters: Arc<PlayCounters>,
    /// Shared units.
    pub units: Units,
    /// All sessions.
    pub sessions: Arc<Sessions<T>>,
    /// The link to the clients.
    pub uplink: Arc<Uplink>,
}

impl<T: Send + Sync> MetricsSource for PlayMetrics<T> {
    fn collect(&self, page: &mut MetricsPage) {
        self.processors(page);
        self.admission(page);
        self.classes(page);
        self.shared_units(page);
        self.memory(page);
        self.network(page);
    }
}

impl<T> PlayMetrics<T> {
    fn network(&self, page: &mut MetricsPage) {
        let help = "Responses that wait for their turn on the network.";
        page.gauge("reel_uplink_waiting", help, &[], self.uplink.waiting() as f64);
        let view = self.uplink.view();
        for (name, help, bytes) in [
            (
                "reel_uplink_bytes_per_second",
                "Media bytes that responses may send in a second; missing while nothing limits them.",
                view.bytes_per_s,
            ),
            (
                "reel_uplink_learnt_bytes_per_second",
                "Media bytes that the network carried in a second when it was full last, if less than was known before.",
                view.learnt_bytes_per_s,
            ),
        ] {
            if let Some(bytes) = bytes {
                page.gauge(name, help, &[], bytes as f64);
            }
        }
    }

    fn processors(&self, page: &mut MetricsPage) {
        let front_ends = self.counters.front_ends.iter();
        let threads =
            front_ends.map(|front_end| (front_end.name, front_end.threads_ns.iter().map(load).sum()));
        for (threads, ns) in threads.chain([("disk", self.units.disks().cpu_ns())]) {
            page.gauge(
                "reel_threads_processor_seconds",
                "Processor time that the threads of each front end and those which drive disks have taken.",
                &[("threads", threads)],
                ns as f64 / 1e9,
            );
        }
        let schedule = self.counters.transfers.schedule();
        let help =
            "Bytes that each transfer without deadlines sends between two pauses; 0 until that is known.";
        page.gauge("reel_transfer_run_bytes", help, &[], schedule.run_bytes as f64);
        let help = "How long each transfer then leaves the processors to other programs; 0 while those lack nothing.";
        page.gauge("reel_transfer_pause_seconds", help, &[], schedule.pause_ns as f64 / 1e9);
        for front_end in &self.counters.front_ends {
            page.gauge(
                "reel_send_mib_seconds",
                "Processor time that sending a MiB costs, learnt from the threads above. Admission counts with that of HTTP.",
                &[("front_end", front_end.name)],
                load(&front_end.mib_ns) as f64 / 1e9,
            );
        }
    }

    fn admission(&self, page: &mut MetricsPage) {
        let counters = &self.counters;
        for (name, help, counter) in [
            (
                "reel_http_responses_cut_total",
                "Responses cut short because stored bytes are lost.",
                &counters.lost_bytes,
            ),
            (
                "reel_panics_total",
                "Clients that were disconnected because a thread panicked on them, which is a defect.",
                &counters.panics,
            ),
            (
                "reel_thread_restarts_total",
                "How often a thread that serves clients began again after a panic, which is a defect.",
                &counters.restarts,
            ),
            (
                "reel_sessions_refused_total",
                "Sessions refused because a table is full or an address has its most.",
                &counters.sessions_refused,
            ),
            (
                "reel_unpromised_total",
                "Responses sent without a reservation: there was no room where the client jumped to or for a better rendition, other sessions got the reservation while the client was paused, or the client took more than was reserved.",
                &counters.unreserved,
            ),
        ] {
            page.counter(name, help, &[], load(counter));
        }
        for (resource, count) in RESOURCES.iter().zip(&counters.not_admitted) {
            page.counter(
                "reel_refusals_total",
                "Streams whose deadlines could not be promised, by the resource that was short.",
                &[("resource", resource.code())],
                load(count),
            );
        }
        let sharing = self.sessions.admission().sharing();
        for (name, help, value) in [
            ("reel_sessions", "Open sessions.", self.sessions.len() as f64),
            (
                "reel_shared_reservations",
                "Groups of sessions that play the same so closely that one of them reads for all.",
                sharing.groups as f64,
            ),
            (
                "reel_followers",
                "Sessions that other sessions read for. They are not charged with disk time for what they share.",
                sharing.followers as f64,
            ),
            (
                "reel_interval_bytes",
                "Media memory that is kept for sessions that follow others.",
                sharing.interval_bytes as f64,
            ),
        ] {
            page.gauge(name, help, &[], value);
        }
    }

    fn classes(&self, page: &mut MetricsPage) {
        for (class, spec) in self.units.disks().classes().iter() {
            let label = [("class", spec.name.as_str())];
            page.counter(
                "reel_http_media_bytes_total",
                "Bytes of media responses taken by clients.",
                &label,
                load(&self.counters.sent_bytes[class.index()]),
            );
            page.counter(
                "reel_deadline_misses_total",
                "Units that came after their deadline.",
                &label,
                load(&self.units.counters().deadline_misses[class.index()]),
            );
        }
    }

    fn shared_units(&self, page: &mut MetricsPage) {
        let units = self.units.counters();
        for (name, help, counter) in [
            ("reel_units_hit_total", "Units found in memory.", &units.hits),
            ("reel_units_joined_total", "Units joined while another viewer read them.", &units.joins),
            ("reel_units_read_total", "Units read from members.", &units.reads),
            ("reel_units_evicted_total", "Units evicted because their memory was needed.", &units.evictions),
            (
                "reel_units_kept_evicted_total",
                "Units evicted that were to stay for a session that follows another.",
                &units.kept_evictions,
            ),
            (
                "reel_units_read_around_total",
                "Units read from other members because their own did not answer in time.",
                &units.read_around,
            ),
            (
                "reel_reads_withdrawn_total",
                "Reads withdrawn from a member because the unit was computed from others.",
                &units.withdrawn,
            ),
            ("reel_member_stalls_total", "Times a member answered no request for too long.", &units.stalled),
            (
                "reel_reads_promoted_total",
                "Reads under way that a more urgent reader joined.",
                &units.promotions,
            ),
            (
                "reel_readers_released_total",
                "Times a slow client's buffers were taken back for others.",
                &units.releases,
            ),
        ] {
            page.counter(name, help, &[], load(counter));
        }
    }

    fn memory(&self, page: &mut MetricsPage) {
        let budget = self.units.budget();
        for (name, help, value) in [
            ("reel_buffers_reserved", "Buffers reserved by readers.", budget.reserved()),
            ("reel_buffers_reservable", "Buffers that readers may reserve.", budget.total()),
            ("reel_buffers_promised", "Buffers promised to viewers, used now or not.", budget.promised()),
            ("reel_buffers_kept", "Buffers kept for sessions that follow others.", budget.kept()),
            (
                "reel_buffers_unpromised",
                "Buffers reserved by readers without a promise.",
                budget.unpromised(),
            ),
            ("reel_readers_waiting", "Readers waiting for memory.", budget.waiting_readers()),
            (
                "reel_readers_in_runs",
                "Downloads read in long runs, each of which costs one seek.",
                self.units.runs().readers(),
            ),
        ] {
            page.gauge(name, help, &[], value as f64);
        }
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
