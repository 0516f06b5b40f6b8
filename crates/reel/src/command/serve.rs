//! `reel serve`: serves a volume over HTTP.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reel::server::{Listener, PromiseConfig, ServeConfig, ServeError, Server};
use reel_api::{ControlConfig, OwnNames, prepare_spool};
use reel_arena::PageKind;
use reel_disk::limits::IDLE_NS;
use reel_disk::{DepthBound, DisksConfig};
use reel_http::CertificateError;
use reel_join::DirectoryError;
use reel_library::Library;
use reel_qos::ClientShare;
use reel_serve::limits::DRAIN_TIME_MAX_NS;
use reel_serve::{PlaceShares, Proxies};
use reel_volume::{ArenaBudget, OpenOptions, Volume, VolumeError};
use tokio::sync::oneshot;

use super::learnt_prices::{LearntPrices, UsedProfile};
use super::profiles;
use crate::args::ServeArguments;
use crate::config::{CastSection, Config, machine_name};
use crate::descriptors;
use crate::ending::{Ending, end_unopened};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::memory::{arena_bytes, machine_bytes};
use crate::memory_sum::{MemorySum, MemoryUsers, program_bytes};
use crate::network::Network;
use crate::output::print_aside;
use crate::signals::{Event, Signals};
use crate::size::Size;

/// `reel serve`.
pub(super) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    let config = configuration(arguments)?;
    logging::start(&config.log)?;
    serve(&config)
}

/// Serves the volume of `config` until SIGTERM or SIGINT.
pub(crate) fn serve(config: &Config) -> Result<Exit, Failure> {
    let Some(volume) = &config.volume else {
        return Err(
            Failure::usage("no volume was given").help("reel serve VOLUME, or set `volume` in reel.toml")
        );
    };
    report_panics();
    // From now on a signal ends the server in order, also while it starts.
    let mut signals =
        Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let Some((library, profiles)) = opened(config, volume, &mut signals)? else { return Ok(Exit::Done) };
    let library = Arc::new(library);
    let count = library.volume().titles().len();
    let ending = Arc::new(Ending::of(library.volume()));
    let settings = serve_config(config, volume)?;
    memory_sum(config, &settings, library.volume()).log();
    let disks = library.volume().disks().clone();
    let prices = LearntPrices::start(volume, disks, profiles)
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    let server = Server::start(settings, library).map_err(|error| refused(&error))?;
    logging::metrics().into_iter().for_each(|log| server.control().metrics().register(log));
    let secure = server.tls_address().map(|address| format!(" and {}", address_text("https", address)));
    let nfs = server.nfs_address().map(|address| format!(", by NFS at {address}"));
    let places = format!(
        "{}{}{}",
        address_text("http", server.address()),
        secure.unwrap_or_default(),
        nfs.unwrap_or_default()
    );
    print_aside(format!("serving {count} titles at {places}"));
    let name = loop {
        match signals.wait() {
            Event::Stop(name) => break name,
            Event::Check => {
                if !server.is_whole() {
                    end_at_once();
                }
            }
            Event::Reload => match server.reload_certificates() {
                // The outcome is in the log already.
                Some(_) => {}
                None => tracing::info!(
                    "SIGHUP: there is no certificate to reload; restart the server for any other change"
                ),
            },
        }
    };
    tracing::info!("{name}: stopping");
    ending.begin().map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    signals.end_at_the_next_stop();
    prices.stop();
    let stopped = server.stop();
    ending.await_writes();
    stopped.map_err(|error| Failure::failed(&error))?;
    tracing::info!("stopped");
    Ok(Exit::Done)
}

/// The volume, which is opened on a thread of its own: a disk that hangs must not keep the server
/// from ending. `None` if a signal to stop has come.
fn opened(
    config: &Config,
    volume: &Path,
    signals: &mut Signals,
) -> Result<Option<(Library, Vec<UsedProfile>)>, Failure> {
    let no_thread = |error| Failure::failed(format!("cannot start a thread: {error}"));
    std::thread::scope(|scope| {
        let (sender, opening) = oneshot::channel();
        let open = move || {
            // Not taken if a signal has come: the volume is closed here then.
            let _ = sender.send(library(config, volume));
        };
        std::thread::Builder::new()
            .name("reel-opening".to_owned())
            .spawn_scoped(scope, open)
            .map_err(no_thread)?;
        match signals.wait_for(opening) {
            Ok(Some(opened)) => opened.map(Some),
            Ok(None) => Err(Failure::failed("the volume could not be opened: the reason is above")),
            Err(name) => {
                tracing::info!("{name}: stopping when the requests to the members have ended");
                end_unopened().map_err(no_thread)?;
                Ok(None)
            }
        }
    })
}

/// Writes panics to the log, which no thread waits for. A panic on a disk thread ends the process:
/// its members cannot be read and written without it, and the service manager restarts the process
/// at once. The volume is consistent at any moment. Threads that serve clients begin again after a
/// panic (docs/design/panics.md).
fn report_panics() {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        match trace.status() {
            BacktraceStatus::Captured => tracing::error!("thread {name} {panic}\n{trace}"),
            _ => tracing::error!("thread {name} {panic}"),
        }
        if name.starts_with(DISK_THREADS) {
            end_at_once();
        }
    }));
}

/// Ends without an orderly shutdown, which would wait for clients that cannot be served any more.
fn end_at_once() -> ! {
    logging::say(
        "error: a data-plane thread failed (the reason is above); the server ends so that it can be restarted; no stored data is lost",
    );
    logging::flush();
    std::process::abort();
}

/// The prefix of the names of disk threads.
const DISK_THREADS: &str = "reel-disk";

fn configuration(arguments: &ServeArguments) -> Result<Config, Failure> {
    let mut config = match &arguments.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    // The command line overrides the configuration.
    config.volume = arguments.volume.clone().or(config.volume);
    config.listen = arguments.listen.unwrap_or(config.listen);
    if let Some(address) = arguments.https {
        config.tls.listen_at(address);
    }
    config.nfs.listen = arguments.nfs.or(config.nfs.listen);
    config.watch = arguments.watch.clone().or(config.watch);
    config.programs_socket = arguments.programs_socket.clone().or(config.programs_socket);
    if let Some(watch) = &config.watch {
        let metadata = std::fs::metadata(watch).map_err(|error| Failure::path("watch", watch, &error))?;
        if !metadata.is_dir() {
            return Err(Failure::usage(format!("cannot watch {}: it is not a directory", watch.display())));
        }
    }
    Ok(config)
}

/// The volume in `directory`, and the profiles by which its members are priced.
fn library(config: &Config, directory: &Path) -> Result<(Library, Vec<UsedProfile>), Failure> {
    let machine = machine_bytes();
    let bytes = arena_bytes(config, config.serve_threads() as u64, machine);
    let smaller = "set arena_bytes to the memory that is available for media, or to 0 to choose by the machine's memory";
    if bytes > machine {
        let (bytes, machine) = (Size(bytes), Size(machine));
        let what = format!("arena_bytes is {bytes} of media memory, and this machine has {machine} in all");
        return Err(Failure::usage(what).help(smaller));
    }
    let bytes = usize::try_from(bytes)
        .map_err(|_| Failure::usage("arena_bytes is larger than this machine can address"))?;
    let options = OpenOptions {
        read_only: false,
        arena: ArenaBudget { bytes, huge_pages: true },
        readable_by_others: config.programs_socket.is_some(),
        rests_after_ns: config.standby.then_some(IDLE_NS),
        disks: DisksConfig {
            threads: config.disk_threads,
            driver: config.experimental.driver.into(),
            policy: config.experimental.policy,
            depth: DepthBound::default(),
            classes: config.classes.table(),
            ..DisksConfig::default()
        },
        ..OpenOptions::default()
    };
    let volume = Volume::open(directory, options).map_err(|error| match error {
        VolumeError::Arena(_) => Failure::failed(format!("{}: {error}", Size(bytes as u64))).help(smaller),
        error => Failure::volume(error),
    })?;
    let usage = volume.arena().usage();
    if usage.bytes_total > bytes {
        tracing::warn!(
            "arena_bytes is {}, and this volume needs at least {}: the larger value is used",
            Size(bytes as u64),
            Size(usage.bytes_total as u64)
        );
    }
    tracing::info!(
        "media memory: {} in {} buffers of {}",
        Size(usage.bytes_total as u64),
        usage.buffers_total,
        Size(volume.arena().buffer_bytes() as u64)
    );
    if config.programs_socket.is_some() && volume.arena().region().pages == PageKind::Normal {
        tracing::warn!(
            "media memory that programs can read has small pages here, which make disks slower; reserve huge pages \
             (vm.nr_hugepages), or allow them (/sys/kernel/mm/transparent_hugepage/shmem_enabled = advise)"
        );
    }
    let used = profiles::apply(directory, &volume, config.experimental.driver.into());
    Ok((Library::new(Arc::new(volume)), used))
}

/// The most memory that the server may use.
fn memory_sum(config: &Config, settings: &ServeConfig, volume: &Volume) -> MemorySum {
    MemorySum::of(&MemoryUsers {
        config,
        connections_max: settings.connections_max,
        members: volume.geometry().width(),
        media_bytes: volume.arena().usage().bytes_total as u64,
        program_bytes: program_bytes(),
    })
}

fn serve_config(config: &Config, volume: &Path) -> Result<ServeConfig, Failure> {
    let spool_dir = config.upload.spool_dir.clone().unwrap_or_else(|| volume.join("spool"));
    prepare_spool(&spool_dir).map_err(|error| {
        Failure::path("store uploads in", &spool_dir, &error).help(
            "set upload.spool_dir to a directory that this user can write to; it is created if its parent exists",
        )
    })?;
    let network = network(config);
    let client_share = ClientShare::permille(config.promise.client_share_permille);
    Ok(ServeConfig {
        listen: config.listen,
        tls: config.tls.config(volume),
        serve_threads: config.serve_threads(),
        pin_threads: config.pin_threads,
        // The cast fits: the value was checked against its maximum.
        real_time_priority: config.experimental.real_time_priority as u8,
        driver: config.experimental.driver.into(),
        cast_train_packets: NonZeroU64::new(config.experimental.cast_train_packets as u64),
        zero_copy: config.zero_copy,
        congestion_control: Some(config.congestion_control.clone()).filter(|name| !name.is_empty()),
        connections_max: connections_max(config),
        sessions_max: config.sessions_max,
        // Checked when the file was read.
        gateways: config.gateways().unwrap_or_default(),
        sessions_file: Some(volume.join("sessions")),
        class_rights: config.classes.rights(),
        binds_sessions: config.bind_sessions_to_address,
        session_idle: Duration::from_secs(config.session_idle_s.into()),
        access_log: config.log.access,
        promise: PromiseConfig {
            admission: config.promise.admission,
            network_bps: network.bps(),
            uplink: network.uplink(config.promise.admission),
            start_wait_s: config.promise.start_wait_s.into(),
            client_share,
        },
        watch: config.watch.clone(),
        programs: config.programs_socket.clone(),
        nfs: config.nfs.config(),
        join: config.join.config(),
        casts: config.casts.iter().map(CastSection::cast).collect::<Result<_, _>>().map_err(wrong_cast)?,
        drain_time: Duration::from_nanos(DRAIN_TIME_MAX_NS),
        housekeeping_clock: reel_rt::now_ns,
        control: ControlConfig {
            spool_dir,
            upload_bytes_max: config.upload.max_bytes.bytes(),
            ingests_max: config.upload.ingests_max,
            names: OwnNames { machine: machine_name(), others: config.hosts.clone() },
            proxies: Proxies::new(config.proxies().unwrap_or_default())
                .with_gateways(config.gateways().unwrap_or_default()),
            base_path: config.base_path().unwrap_or_default(),
            shares: PlaceShares {
                share: client_share,
                exempt: config.gateways().unwrap_or_default(),
                binds_loopback: false,
            },
        },
    })
}

/// A cast of the configuration that is not possible.
fn wrong_cast(reason: String) -> Failure {
    Failure::usage(format!("[[casts]]: {reason}"))
}

/// The network to the viewers. The log says what its rate is, or that it is unknown.
fn network(config: &Config) -> Network {
    if !config.promise.admission {
        tracing::warn!("promise.admission is off: every client is admitted, and nothing is reserved");
    }
    let network = Network::of(config);
    tracing::info!("{}", network.text());
    network
}

/// The address to open in a browser on this machine.
fn address_text(scheme: &str, address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            format!("{scheme}://127.0.0.1:{port}/, and at every other address of this machine")
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            format!("{scheme}://[::1]:{port}/, and at every other address of this machine")
        }
        _ => format!("{scheme}://{address}/"),
    }
}

/// The configured number of connections, or as many as this process may have open.
fn connections_max(config: &Config) -> usize {
    let allowed = descriptors::connections(config.connections_max);
    if allowed < config.connections_max {
        tracing::warn!(
            "only {allowed} of {} connections (connections_max) are possible: the limit of open files is too low; \
             raise it with `ulimit -n` or LimitNOFILE in the service's unit",
            config.connections_max
        );
    }
    allowed
}

/// What to do about an address on which something cannot listen.
fn listening_help(of: Listener, why: io::ErrorKind) -> Option<&'static str> {
    Some(match (why, of) {
        (io::ErrorKind::AddrInUse, Listener::Http) => {
            "another program listens there; stop it, or choose another port with --listen ADDR:PORT"
        }
        (io::ErrorKind::AddrInUse, Listener::Tls) => {
            "another program listens there; stop it, or choose another port with tls.listen in reel.toml"
        }
        (io::ErrorKind::AddrInUse, Listener::Nfs) => {
            "another program listens there, perhaps another server of NFS; stop it, or choose another port with \
             --nfs ADDR:PORT"
        }
        (io::ErrorKind::AddrInUse, Listener::PortMapper) => {
            "another port mapper listens there, usually rpcbind; stop it, or set nfs.portmap = false and tell clients \
             the port"
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            "this machine has no such address; 0.0.0.0 means all of its addresses"
        }
        (io::ErrorKind::PermissionDenied, Listener::PortMapper) => {
            "ports below 1024 need a privilege; set nfs.portmap = false and tell clients the port"
        }
        (io::ErrorKind::PermissionDenied, _) => "ports below 1024 need a privilege; choose a larger port",
        _ => return None,
    })
}

fn refused(error: &ServeError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        ServeError::Listen { of, source, .. } => match listening_help(*of, source.kind()) {
            Some(help) => failure.help(help),
            None => failure,
        },
        ServeError::Certificate(CertificateError::File { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Failure::not_found(error).help("tls.certificate and tls.key name the files that the server reads")
        }
        ServeError::Certificate(CertificateError::Unusable { .. })
        | ServeError::Join { source: DirectoryError::OwnMount, .. } => Failure::usage(error),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_arena::{Arena, ArenaConfig};
    use reel_disk::{
        DiskDone, DiskRequest, DiskWork, MemberFile, OpenMode, Reply, RequestId, Requester, start_disks,
    };
    use reel_qos::{Class, DEADLINE_NONE_NS};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// A defect that a disk thread meets when it answers.
    struct Defect;

    impl Reply for Defect {
        fn deliver(&self, _: DiskDone) {
            panic!("a defect of a caller");
        }
    }

    #[test]
    fn what_to_do_about_an_address_names_the_setting_that_it_comes_from() {
        let settings = [
            (Listener::Http, "--listen"),
            (Listener::Tls, "tls.listen"),
            (Listener::Nfs, "--nfs"),
            (Listener::PortMapper, "nfs.portmap"),
        ];
        for (listener, setting) in settings {
            let help = listening_help(listener, io::ErrorKind::AddrInUse).expect("help");
            let others = settings.iter().filter(|(_, other)| *other != setting);
            assert!(help.contains(setting), "{help}");
            assert!(others.clone().all(|(_, other)| !help.contains(other)), "{help}");
        }
        let help = listening_help(Listener::PortMapper, io::ErrorKind::PermissionDenied).expect("help");
        assert!(help.contains("nfs.portmap = false"), "{help}");
        assert_eq!(listening_help(Listener::Http, io::ErrorKind::OutOfMemory), None);
    }

    /// In a process of its own, because that ends.
    #[test]
    fn a_panic_on_a_disk_thread_ends_the_process_at_once_with_its_reason() {
        const CHILD: &str = "REEL_TEST_DISK_PANIC";
        if std::env::var_os(CHILD).is_none() {
            let own = std::env::current_exe().unwrap();
            let name =
                "command::serve::tests::a_panic_on_a_disk_thread_ends_the_process_at_once_with_its_reason";
            let child = Command::new(own).args([name, "--exact"]).env(CHILD, "1").output().unwrap();
            let said = String::from_utf8_lossy(&child.stderr);
            assert_eq!(
                child.status.signal(),
                Some(rustix::process::Signal::ABORT.as_raw()),
                "{:?}: {said}",
                child.status
            );
            for part in ["thread reel-disk", "a defect of a caller", "error: a data-plane thread failed"] {
                assert!(said.contains(part), "{said}");
            }
            return;
        }
        logging::start(&Config::default().log).unwrap();
        report_panics();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member");
        std::fs::write(&path, vec![0; 1 << 16]).unwrap();
        let member = MemberFile::open(&path, OpenMode::ReadWrite).unwrap();
        let arena =
            ArenaConfig { buffer_bytes: 1 << 16, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(arena).unwrap();
        let disks = start_disks(vec![Some(member)], &arena, DisksConfig::default()).unwrap();
        disks.submit(DiskRequest {
            id: RequestId::new(),
            member: 0,
            class: Class::APERIODIC,
            requester: Requester::default(),
            deadline_ns: DEADLINE_NONE_NS,
            work: DiskWork::Sync,
            token: 0,
            reply: Arc::new(Defect),
        });
        // Only ends a test that fails.
        std::thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn the_address_can_be_typed_into_a_browser() {
        let text = |address: &str| address_text("http", address.parse().unwrap());
        assert_eq!(text("127.0.0.1:8080"), "http://127.0.0.1:8080/");
        assert!(text("0.0.0.0:80").starts_with("http://127.0.0.1:80/,"));
        assert!(text("[::]:80").starts_with("http://[::1]:80/,"));
        assert_eq!(text("[fe80::1]:80"), "http://[fe80::1]:80/");
    }
}
