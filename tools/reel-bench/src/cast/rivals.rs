//! ffmpeg and GStreamer, which send the same file to the same group.

use super::capture::{Sent, capture};
use super::cost::{Meter, Spent};
use super::site::{GROUP, PORT, Site};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A rival, and whether it sends FEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    Ffmpeg,
    FfmpegFec,
    GStreamer,
    GStreamerFec,
}

/// Time until a rival sends steadily.
const SETTLE: Duration = Duration::from_secs(2);

/// A rival that runs. It is ended with this value.
pub(super) struct Running(Child);

impl Rival {
    pub(super) const ALL: [Rival; 4] =
        [Rival::Ffmpeg, Rival::FfmpegFec, Rival::GStreamer, Rival::GStreamerFec];

    pub(super) fn name(self) -> &'static str {
        match self {
            Rival::Ffmpeg => "ffmpeg",
            Rival::FfmpegFec => "ffmpeg, prompeg",
            Rival::GStreamer => "gstreamer",
            Rival::GStreamerFec => "gstreamer, fecenc",
        }
    }

    pub(super) fn sends_fec(self) -> bool {
        matches!(self, Rival::FfmpegFec | Rival::GStreamerFec)
    }

    /// Sends a stream at its own rate, and measures what that costs for a time.
    pub(super) fn measure(self, site: &Site, stream: &Path, time: Duration) -> Result<Spent> {
        let mut running = self.start(site, stream, GROUP)?;
        sleep(SETTLE);
        let before = Meter::read(&site.space, running.0.id())?;
        sleep(time);
        let after = Meter::read(&site.space, running.0.id())?;
        ensure!(running.0.try_wait()?.is_none(), "{} ended early", self.name());
        Ok(after.since(&before))
    }

    /// Sends a stream, and captures its packets for a time.
    pub(super) fn capture(self, site: &Site, stream: &Path, time: Duration) -> Result<Vec<Sent>> {
        let _running = self.start(site, stream, GROUP)?;
        sleep(SETTLE);
        let groups = capture(site, &[format!("{GROUP}/32")], PORT, time)?;
        groups.into_values().next().with_context(|| format!("{} sent nothing", self.name()))
    }

    /// Starts it.
    pub(super) fn start(self, site: &Site, stream: &Path, group: &str) -> Result<Running> {
        let mut command =
            if self.is_ffmpeg() { self.ffmpeg(stream, group) } else { self.gstreamer(stream, group) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        let child = site.space.inside(|| Ok(command.spawn()?));
        child.map(Running).with_context(|| format!("is {name} installed?"))
    }

    fn is_ffmpeg(self) -> bool {
        matches!(self, Rival::Ffmpeg | Rival::FfmpegFec)
    }

    fn ffmpeg(self, stream: &Path, group: &str) -> Command {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i"]).arg(stream);
        ffmpeg.args(["-c", "copy", "-f", "rtp_mpegts"]);
        if self.sends_fec() {
            ffmpeg.args(["-fec", "prompeg=l=20:d=4"]);
        }
        ffmpeg.arg(format!("rtp://{group}:{PORT}?pkt_size=1328&ttl=1"));
        ffmpeg
    }

    fn gstreamer(self, stream: &Path, group: &str) -> Command {
        let mut pipeline = vec!["-q".to_owned()];
        let sink = |port: u16| format!("udpsink host={group} port={port} ttl-mc=1 sync=true async=false");
        let source = format!(
            "filesrc location={} blocksize=131600 ! tsparse set-timestamps=true alignment=7 ! rtpmp2tpay mtu=1328",
            stream.display()
        );
        let words = if self.sends_fec() {
            pipeline.extend(["rtpbin", "name=r"].map(str::to_owned));
            pipeline.push(
                r#"fec-encoders=fec,0="rtpst2022-1-fecenc\ rows\=4\ columns\=20\ enable-row-fec\=false";"#
                    .to_owned(),
            );
            format!(
                "{source} ssrc=0 ! r.send_rtp_sink_0 r.send_rtp_src_0 ! {} r.send_fec_src_0_0 ! {}",
                sink(PORT),
                sink(PORT + 2)
            )
        } else {
            format!("{source} ! {}", sink(PORT))
        };
        pipeline.extend(words.split(' ').map(str::to_owned));
        let mut gstreamer = Command::new("gst-launch-1.0");
        gstreamer.args(pipeline);
        gstreamer
    }
}

impl Running {
    /// Reads what it has used, and what all have sent.
    pub(super) fn meter(&self, site: &Site) -> Result<Meter> {
        Meter::read(&site.space, self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
