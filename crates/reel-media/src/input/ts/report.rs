//! Warnings about what was found in the streams of a file: where it begins, and how much it is.

use super::clock::RATE;
use super::stream::Stream;
use super::{File, Lane};
use crate::input::warnings::Warnings;
use crate::limits;
use crate::times::{at, counted, lasting};

impl File {
    /// All warnings that need the whole file.
    pub(super) fn report(&mut self) {
        let zero = self.zero;
        let near = self.damaged_near.flatten().map(|ticks| at(ticks - zero, RATE));
        self.packets.report(near.as_deref(), &mut self.warnings);
        if let Some(first) = self.programme.first_jump {
            let (times, first) = (counted(self.programme.jumps, "time"), at(first - zero, RATE));
            self.warnings.add(format!(
                "the clock jumps {times}, first at {first}: the file was joined from several; they are played without a gap"
            ));
        }
        let kept = self.streams.iter().zip(&self.lanes);
        for (stream, lane) in kept.filter(|(_, lane)| !matches!(lane, Lane::Out | Lane::Silent)) {
            losses(stream, zero, &mut self.warnings);
            pictures(stream, zero, &mut self.warnings);
            damage(stream, zero, &mut self.warnings);
            if let Lane::Audio { sound, .. } = lane {
                sound.report(stream.pid, &mut self.warnings);
            }
            changes(stream, zero, &mut self.warnings);
        }
    }
}

/// Packets that are missing or encrypted.
fn losses(stream: &Stream, zero: i64, warnings: &mut Warnings) {
    let losses = &stream.losses;
    if losses.count == 0 {
        return;
    }
    let first = at(losses.first.map_or(0, |first| first - zero), RATE);
    let (pid, what, places) = (stream.pid, stream.carries.medium(), counted(losses.count, "place"));
    if stream.scrambled.count > 0 {
        let packets = counted(stream.scrambled.count, "packet");
        let first = at(stream.scrambled.first.map_or(0, |first| first - zero), RATE);
        warnings.add(format!(
            "encrypted, and counted as missing: {packets} of stream {pid}, the first near {first}"
        ));
    }
    warnings.add(format!(
        "packets of stream {pid} ({what}) are missing at {places}, the first near {first}: {what} may be damaged there"
    ));
}

/// Pictures that cannot be decoded, or that have no time.
fn pictures(stream: &Stream, zero: i64, warnings: &mut Warnings) {
    let pid = stream.pid;
    if stream.leading.count > 0 {
        let count = counted(stream.leading.count, "picture");
        let first = at(stream.leading.first.map_or(0, |first| first - zero), RATE);
        warnings.add(format!(
            "stream {pid}: {count} before a key frame cannot be decoded and are left out, the first at {first}"
        ));
    }
    if stream.unstamped.count > 0 {
        let count = counted(stream.unstamped.count, "picture");
        let first = at(stream.unstamped.first.map_or(0, |first| first - zero), RATE);
        warnings.add(format!(
            "stream {pid}: {count} without time stamps, the first at {first}: each is placed one frame after the picture before"
        ));
    }
}

/// Frames of sound that are damaged.
fn damage(stream: &Stream, zero: i64, warnings: &mut Warnings) {
    let Some(bytes) = stream.damaged_bytes().filter(|_| stream.damage.count > 0) else { return };
    let places = counted(stream.damage.count, "place");
    let first = at(stream.damage.first.map_or(0, |first| first - zero), RATE);
    warnings.add(format!(
        "sound frames of stream {} are damaged at {places}, the first near {first}: {bytes} bytes are left out",
        stream.pid
    ));
}

/// Changes of decoder configuration: the first ones.
fn changes(stream: &Stream, zero: i64, warnings: &mut Warnings) {
    let place = |ticks: i64| at(ticks - zero, RATE);
    let (pid, changes) = (stream.pid, stream.changes());
    let what = if stream.carries.is_video() { "pictures of stream" } else { "sound of stream" };
    let verb = if stream.carries.is_video() { "change" } else { "changes" };
    for (time, to) in &changes.named {
        let time = place(*time);
        warnings.add(format!(
            "the {what} {pid} {verb} at {time} to {to}: a new decoder configuration begins there"
        ));
    }
    if changes.count > changes.named.len() {
        let more = changes.count - changes.named.len();
        warnings.add(format!("the {what} {pid} {verb} {more} more times"));
    }
    if let Some((first, left_out)) = stream.left_out() {
        let (first, left_out) = (place(first), lasting(left_out, RATE));
        warnings.add(format!(
            "sound of stream {pid} is left out, {left_out} in all, the first at {first}: it is coded \
             in another way for a short time, or with another codec"
        ));
    }
    if stream.unfollowed > 0 {
        let limit = limits::OUT_CHANGES;
        warnings.add(format!(
            "the {what} {pid} {verb} more than {limit} times: some players cannot follow the later ones"
        ));
    }
}
