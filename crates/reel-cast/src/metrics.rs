//! The counters of casts, as the metrics page shows them.

use crate::casts::Casts;
use crate::on_air::CastState;
use reel_metrics::{MetricsPage, MetricsSource};
use reel_rt::now_ns;

/// Casts on the metrics page.
pub struct CastMetrics(pub Casts);

impl MetricsSource for CastMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let casts = self.0.list(now_ns());
        let on_air = casts.iter().filter(|cast| cast.state == CastState::OnAir).count();
        page.gauge("reel_casts", "Casts on the air.", &[], on_air as f64);
        for cast in &casts {
            for (name, help, value) in [
                ("reel_cast_packets_total", "Media packets of a cast that were sent.", cast.packets),
                ("reel_cast_fec_packets_total", "FEC packets of a cast that were sent.", cast.fec_packets),
                ("reel_cast_late_packets_total", "Packets of a cast that left late.", cast.late_packets),
                ("reel_cast_lost_packets_total", "Packets of a cast that were not sent.", cast.lost_packets),
                ("reel_cast_announcements_total", "Announcements of a cast (SAP).", cast.announcements),
                (
                    "reel_cast_unannounced_total",
                    "Announcements of a cast that were not sent: its description is too long for one datagram.",
                    cast.unannounced,
                ),
            ] {
                page.counter(name, help, &[("cast", &cast.name)], value);
            }
        }
    }
}
