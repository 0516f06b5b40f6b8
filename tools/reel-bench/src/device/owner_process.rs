//! The device owner's own side: makes what it is asked for, and removes all of it, last made first,
//! when the experiment is gone.

use super::files::DiskFiles;
use super::kernel::{Ext4, Frozen, Group, LoopDevice, OwnedDir, OwnedFile, OwnedServer, set_queue};
use super::owner::{Answer, DeviceRequest, DiskCounts};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Runs until standard input ends.
pub(crate) fn own() -> Result<()> {
    let mut kept = Resources::default();
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?).map_err(Into::into).and_then(|ask| kept.answer(ask)) {
            Ok(value) => Answer::Done(value),
            Err(error) => Answer::Failed(format!("{error:#}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        if io::stdout().write_all(text.as_bytes()).is_err() {
            // The asker is gone.
            break;
        }
    }
    Ok(())
}

/// All that was made, in the order in which it was.
#[derive(Default)]
struct Resources {
    things: Vec<Owned>,
}

/// Each goes away when it is dropped.
#[expect(dead_code, reason = "some are held only to be dropped")]
enum Owned {
    Disks(DiskFiles),
    Loop(LoopDevice),
    Ext4(Ext4),
    Frozen(Frozen),
    Group(Group),
    File(OwnedFile),
    Dir(OwnedDir),
    Server(OwnedServer),
}

impl Resources {
    fn answer(&mut self, ask: DeviceRequest) -> Result<Value> {
        match ask {
            DeviceRequest::Disks { dir, count, bytes } => return self.disks(&dir, count, bytes),
            DeviceRequest::Loop { file } => {
                let made = LoopDevice::over(&file)?;
                let device = made.device.clone();
                self.things.push(Owned::Loop(made));
                return Ok(json!(device));
            }
            DeviceRequest::Queue { device, scheduler, read_ahead_kib } => {
                set_queue(&device, scheduler.as_deref(), read_ahead_kib)?;
            }
            DeviceRequest::Ext4 { device, at } => self.things.push(Owned::Ext4(Ext4::make(&device, &at)?)),
            DeviceRequest::Dir { path } => self.things.push(Owned::Dir(OwnedDir::make(&path)?)),
            DeviceRequest::File { path, bytes } => {
                self.things.push(Owned::File(OwnedFile::make(&path, bytes)?))
            }
            DeviceRequest::Throttle { device, read_bps, read_iops } => {
                self.group()?.throttle(&device, read_bps, read_iops)?;
            }
            DeviceRequest::Memory { bytes } => self.group()?.memory(bytes)?,
            DeviceRequest::Processor { percent } => self.group()?.processor(percent)?,
            DeviceRequest::Freeze { at } => self.things.push(Owned::Frozen(Frozen::make(&at)?)),
            DeviceRequest::Thaw { at } => {
                self.things.retain(|thing| !matches!(thing, Owned::Frozen(frozen) if frozen.at == at));
            }
            DeviceRequest::Join { pid } => self.group()?.join(pid)?,
            DeviceRequest::Own { pid } => self.things.push(Owned::Server(OwnedServer::of(pid)?)),
            DeviceRequest::Change { disk, change } => {
                let disks = self.disk_files().context("no modelled disks were made")?;
                ensure!(disks.change(disk, change), "there is no modelled disk {disk}");
            }
            DeviceRequest::Counts => {
                let counts: Vec<_> = self.disk_files().into_iter().flat_map(DiskFiles::counts).collect();
                let counts = counts.into_iter().map(|counts| DiskCounts {
                    reads: counts.reads.load(Relaxed),
                    read_bytes: counts.read_bytes.load(Relaxed),
                    writes: counts.writes.load(Relaxed),
                    written_bytes: counts.written_bytes.load(Relaxed),
                    busy_ns: counts.busy_ns.load(Relaxed),
                    seeks: counts.seeks.load(Relaxed),
                    overruns: counts.overruns.load(Relaxed),
                });
                return Ok(json!(counts.collect::<Vec<_>>()));
            }
        }
        Ok(Value::Null)
    }

    fn disks(&mut self, dir: &Path, count: usize, bytes: u64) -> Result<Value> {
        ensure!(self.disk_files().is_none(), "the modelled disks are there already");
        self.things.push(Owned::Dir(OwnedDir::make(dir)?));
        let mut backing = Vec::new();
        for number in 0..count {
            let path = dir.join(format!("backing-{number}"));
            self.things.push(Owned::File(OwnedFile::make(&path, bytes)?));
            backing.push(path);
        }
        let disks = DiskFiles::mount(&dir.join("disks"), &backing, bytes)?;
        let paths = disks.paths();
        self.things.push(Owned::Disks(disks));
        Ok(json!(paths))
    }

    fn disk_files(&self) -> Option<&DiskFiles> {
        self.things.iter().find_map(|thing| if let Owned::Disks(disks) = thing { Some(disks) } else { None })
    }

    fn group(&mut self) -> Result<&mut Group> {
        let place = self.things.iter().position(|thing| matches!(thing, Owned::Group(_)));
        let place = place.unwrap_or_else(|| {
            self.things.push(Owned::Group(Group::default()));
            self.things.len() - 1
        });
        match &mut self.things[place] {
            Owned::Group(group) => Ok(group),
            _ => unreachable!("the place was found or made for a group"),
        }
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        // Servers hold mounts open, so they go first, whenever they were made.
        self.things.retain(|thing| !matches!(thing, Owned::Server(_)));
        while self.things.pop().is_some() {}
    }
}
