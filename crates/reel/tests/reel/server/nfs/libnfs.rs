//! Titles as libnfs lists and reads them: its programs, and the library itself.

use super::{options, rig, rig_over, url};
use crate::server::many_titles::{self, TITLES};
use crate::server::rig::{DRIVERS, Rig};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A program that opens a file below the root, which those of libnfs cannot: they mount the
/// directory of the file.
const BELOW_ROOT: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
struct nfs_context;
struct nfsfh;
struct nfs_url { char *server, *path, *file; };
struct nfs_context *nfs_init_context(void);
struct nfs_url *nfs_parse_url_incomplete(struct nfs_context *, const char *);
int nfs_mount(struct nfs_context *, const char *, const char *);
int nfs_open(struct nfs_context *, const char *, int, struct nfsfh **);
int nfs_read(struct nfs_context *, struct nfsfh *, uint64_t, void *);
char *nfs_get_error(struct nfs_context *);
int main(int count, char **words) {
    static char bytes[1 << 20];
    struct nfs_context *nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_incomplete(nfs, words[1]);
    struct nfsfh *file;
    int read = -1;
    if (url && !nfs_mount(nfs, url->server, "/") && !nfs_open(nfs, words[2], O_RDONLY, &file))
        while ((read = nfs_read(nfs, file, sizeof bytes, bytes)) > 0)
            fwrite(bytes, 1, read, stdout);
    if (read < 0) fprintf(stderr, "%s\n", nfs_get_error(nfs));
    return read < 0;
}
"#;

/// Whether the programs of libnfs are here. Says so if not.
pub(super) fn is_missing() -> bool {
    let is_missing = Command::new("nfs-ls").output().is_err();
    if is_missing {
        println!("skipped: nfs-ls is not installed");
    }
    is_missing
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("it runs")
}

/// What `nfs-cat` reads.
fn cat(address: SocketAddr, path: &str) -> Vec<u8> {
    let read = run("nfs-cat", &[&url(address, path)]);
    assert!(read.status.success(), "{path}: {}", String::from_utf8_lossy(&read.stderr));
    read.stdout
}

#[test]
fn libnfs_lists_and_reads_what_is_stored() {
    if is_missing() {
        return;
    }
    for driver in DRIVERS {
        let (rig, address) = rig(|config| config.driver = driver);
        let list = run("nfs-ls", &["-R", &url(address, "/")]);
        let said = String::from_utf8_lossy(&list.stdout);
        for path in ["copy/film.mp4", "play/film.mp4", "open/film.mp4", "status/film"] {
            assert!(said.lines().any(|line| line.ends_with(path)), "{said}");
        }
        assert!(said.contains(&rig.film.len().to_string()), "{said}");
        for path in ["/copy/film.mp4", "/play/film.mp4"] {
            assert!(cat(address, path) == rig.film, "{path}");
        }
        let target = rig.path("copied.mp4");
        let target = target.to_str().expect("UTF-8");
        let copied = run("nfs-cp", &[&url(address, "/copy/film.mp4"), target]);
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        assert!(std::fs::read(target).expect("written") == rig.film);
        // Nothing can be written.
        let written = run("nfs-cp", &[target, &url(address, "/copy/new.mp4")]);
        assert!(!written.status.success());
    }
}

#[test]
fn libnfs_follows_links_and_reads_texts() {
    if is_missing() {
        return;
    }
    let (rig, address) = rig(|_| {});
    assert_eq!(cat(address, "/status/film"), b"no user of 127.0.0.1 reads film in /play\n");
    // The directory of links is mounted.
    assert!(cat(address, "/open/film.mp4") == rig.film);
    assert_eq!(rig.metric("reel_nfs_held_total"), 1.0);
    let said = String::from_utf8(cat(address, "/status/film")).expect("text");
    assert!(said.contains("of 127.0.0.1: admitted"), "{said}");
    // The root is mounted.
    let Some(program) = below_root(&rig) else {
        return println!("skipped: no compiler of C, or no libnfs to link with");
    };
    let server = format!("nfs://127.0.0.1/{}", options(address));
    for path in ["/open/film.mp4", "/play/film.mp4"] {
        let read = run(program.to_str().expect("UTF-8"), &[&server, path]);
        assert!(read.stdout == rig.film, "{path}: {}", String::from_utf8_lossy(&read.stderr));
    }
    assert_eq!(rig.metric("reel_nfs_held_total"), 2.0);
}

/// Compiles the program against the library that the programs of libnfs use.
fn below_root(rig: &Rig) -> Option<PathBuf> {
    let (source, program) = (rig.path("below-root.c"), rig.path("below-root"));
    std::fs::write(&source, BELOW_ROOT).expect("written");
    let library = ["-l:libnfs.so.13", "-lnfs"].into_iter();
    let mut compiled =
        library.map(|library| Command::new("cc").arg(&source).arg("-o").arg(&program).arg(library).output());
    compiled.any(|done| done.is_ok_and(|done| done.status.success())).then_some(program)
}

/// The server ends and begins again while the client waits for its own reader.
#[test]
fn a_read_of_libnfs_survives_a_restart_of_the_server() {
    if is_missing() {
        return;
    }
    for directory in ["copy", "play"] {
        let (mut rig, address) = rig(|_| {});
        let path = format!("/{directory}/film.mp4");
        let mut child =
            Command::new("nfs-cat").arg(url(address, &path)).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut output = child.stdout.take().expect("a pipe");
        let mut film = vec![0; 1 << 20];
        output.read_exact(&mut film).expect("a megabyte");
        // The pipe holds 64 KiB, and the client a megabyte.
        assert!(rig.film.len() > 4 << 20, "it is in the middle of {} bytes", rig.film.len());
        rig.stop();
        rig.start();
        output.read_to_end(&mut film).expect("the rest");
        assert!(child.wait().expect("it ends").success());
        assert!(film == rig.film, "{} bytes of {}", film.len(), rig.film.len());
    }
}

#[test]
fn libnfs_lists_3000_titles_each_once() {
    if is_missing() {
        return;
    }
    let (rig, address) = rig_over(many_titles::options(), |_| {});
    many_titles::add_titles(&rig);
    for directory in ["copy", "play", "open"] {
        let list = run("nfs-ls", &[&url(address, &format!("/{directory}"))]);
        assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
        let said = String::from_utf8(list.stdout).expect("text");
        let names: BTreeSet<&str> = said.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!((names.len(), said.lines().count()), (TITLES, TITLES), "{directory}");
        for name in ["film.mp4", "title-1.mp4", "title-2999.mp4"] {
            assert!(names.contains(name), "{name}");
        }
    }
    assert!(cat(address, "/play/film.mp4") == rig.film);
}
