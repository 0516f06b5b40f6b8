//! The server's certificate and key: read from files or generated, and maintained while the server
//! runs.

use crate::limits::{CERTIFICATE_FILE_BYTES_MAX, CERTIFICATE_WARN_S};
use reel_metrics::{MetricsPage, MetricsSource};
use reel_rt::open_regular;
use reel_tls::limits::RENEW_BEFORE_S;
use reel_tls::{Acceptor, Identity, IdentityError, generate};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain as PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key as PEM.
    pub key: PathBuf,
    /// If set, the server generates them for these names when they are missing or about to expire.
    pub generate_for: Option<Vec<String>>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents of the files cannot be used.
    #[error("cannot use the certificate {} with the key {}: {source}", certificate.display(), key.display())]
    Unusable {
        /// The chain.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// The cause, and what to do.
        source: IdentityError,
    },
}

impl CertificateError {
    /// Whether the certificate is fit for use at another time.
    fn is_of_time(&self) -> bool {
        use IdentityError::{Expired, NotYetValid};
        matches!(self, CertificateError::Unusable { source: Expired(_) | NotYetValid(_), .. })
    }
}

/// The certificate in use, and the files it came from.
#[derive(Debug)]
pub struct Certificates {
    files: CertificateFiles,
    acceptor: Acceptor,
    /// The stamps of the files when they were last read, whether the contents were used or not.
    seen: Mutex<[Option<Stamp>; 2]>,
    reloads: AtomicU64,
    refusals: AtomicU64,
    /// The day of the last warning that the certificate expires soon.
    warned_day: AtomicU64,
}

/// A file that has changed has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed_ns: i128,
}

impl Certificates {
    /// Reads the files, or generates them. A certificate that is expired or not valid yet is used,
    /// and the log says so: clients refuse it, and the rest of the server works. It is replaced as
    /// soon as a good one is in the files.
    ///
    /// # Errors
    /// The files cannot be read. The certificate is made for another key.
    pub fn load(files: CertificateFiles, http2: bool) -> Result<Self, CertificateError> {
        let (identity, seen) = files.identity_with_stamps(true);
        let identity = match identity {
            Err(error) if error.is_of_time() => {
                tracing::error!("{error}; the server starts with it, and clients refuse it");
                files.read()?
            }
            identity => identity?,
        };
        let acceptor = Acceptor::new(identity, http2).map_err(|source| files.unusable(source))?;
        let certificates = Self {
            files,
            acceptor,
            seen: Mutex::new(seen),
            reloads: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            warned_day: AtomicU64::new(0),
        };
        certificates.log_identity("in use");
        certificates.warn_of_end();
        Ok(certificates)
    }

    /// The acceptor, which begins connections with the certificate in use.
    pub fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// Reads the files again, and returns whether the certificate in them is now in use.
    ///
    /// Open connections stay as they are, and new ones use the new certificate. If it cannot be
    /// used, the old one stays in use and the log gives the reason.
    pub fn reload(&self) -> bool {
        // Clients that trust a generated certificate would not trust another one. So none is
        // generated because the files are missing or damaged at the moment.
        let (identity, seen) = self.files.identity_with_stamps(self.is_to_be_made_again());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        match identity {
            Ok(identity) => {
                self.acceptor.replace(identity);
                self.reloads.fetch_add(1, Ordering::Relaxed);
                self.log_identity("taken over");
                true
            }
            Err(error) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                let until = self.acceptor.identity().validity();
                let renewal = if self.files.generate_for.is_some() {
                    "; a new one is made only at a start"
                } else {
                    ""
                };
                tracing::error!(
                    "{error}; the certificate that was in use before (valid {until}) stays in use{renewal}"
                );
                false
            }
        }
    }

    /// Reloads when a file has changed, replaces a generated certificate before it expires, and
    /// warns of one that expires soon. To be called every
    /// [`CERTIFICATE_LOOK_S`](crate::limits::CERTIFICATE_LOOK_S) seconds.
    pub fn poll(&self) {
        let stamps = self.files.stamps();
        let changed = *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamps;
        // Both files must exist: a program that replaces them may remove them first.
        let whole = stamps.iter().all(Option::is_some);
        let renew = self.files.generate_for.is_some() && self.is_to_be_made_again();
        if (changed && whole) || renew {
            self.reload();
        }
        self.warn_of_end();
    }

    /// Whether a generated certificate ends soon, or was made while the clock was ahead.
    fn is_to_be_made_again(&self) -> bool {
        self.left_s() < RENEW_BEFORE_S || self.acceptor.identity().validity().not_before_s > now_s()
    }

    /// Seconds until the certificate in use expires.
    fn left_s(&self) -> i64 {
        self.acceptor.identity().validity().not_after_s - now_s()
    }

    fn warn_of_end(&self) {
        let left_s = self.left_s();
        // Fits: days since 1970.
        let today = (now_s() / 86_400) as u64;
        if left_s < CERTIFICATE_WARN_S && self.warned_day.swap(today, Ordering::Relaxed) != today {
            let validity = self.acceptor.identity().validity();
            tracing::warn!(
                "the TLS certificate {} ends in {} days (valid {validity}); have it renewed, the server takes the new files by itself",
                self.files.certificate.display(),
                left_s.div_euclid(86_400)
            );
        }
    }

    fn log_identity(&self, what: &str) {
        let identity = self.acceptor.identity();
        let (validity, fingerprint) = (identity.validity(), identity.fingerprint());
        let path = self.files.certificate.display();
        tracing::info!("TLS certificate {path} {what}: valid {validity}, SHA-256 {fingerprint}");
        if self.files.generate_for.is_some() {
            tracing::warn!(
                "the certificate is self-signed: browsers ask before they continue, and programs refuse it unless told to trust {path}"
            );
        }
    }
}

impl CertificateFiles {
    /// The identity, and the stamps of the files that it was read from. The stamps are taken before
    /// the files are read, so that a change meanwhile is noticed, but after the files were
    /// generated.
    fn identity_with_stamps(
        &self,
        may_make: bool,
    ) -> (Result<Identity, CertificateError>, [Option<Stamp>; 2]) {
        let before = self.stamps();
        let identity = self.identity(may_make);
        let seen = if self.generate_for.is_some() { self.stamps() } else { before };
        (identity, seen)
    }

    fn identity(&self, may_make: bool) -> Result<Identity, CertificateError> {
        let Some(names) = self.generate_for.as_ref().filter(|_| may_make) else { return self.read_valid() };
        match self.read_valid() {
            Ok(identity) if identity.validity().not_after_s - now_s() >= RENEW_BEFORE_S => {
                return Ok(identity);
            }
            Ok(_) => tracing::info!("the generated certificate ends soon: a new one is made"),
            Err(CertificateError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error @ CertificateError::File { .. }) => return Err(error),
            Err(error) => tracing::warn!("{error}; it was generated, so a new one is made"),
        }
        let made = generate(names, SystemTime::now()).map_err(|source| self.unusable(source))?;
        if let Some(directory) = self.key.parent() {
            fs::create_dir_all(directory).map_err(|source| file_error("make", directory, source))?;
        }
        write(&self.key, &made.key, 0o600)?;
        write(&self.certificate, &made.certificate, 0o644)?;
        self.read_valid()
    }

    fn read(&self) -> Result<Identity, CertificateError> {
        let (chain, key) = (read(&self.certificate)?, read(&self.key)?);
        Identity::from_pem(&chain, &key).map_err(|source| self.unusable(source))
    }

    /// The same, if today is in the time of the certificate.
    fn read_valid(&self) -> Result<Identity, CertificateError> {
        let identity = self.read()?;
        identity.validity().check(now_s()).map_err(|source| self.unusable(source))?;
        Ok(identity)
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            let changed_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            Some(Stamp { inode: metadata.ino(), bytes: metadata.len(), changed_ns })
        })
    }

    fn unusable(&self, source: IdentityError) -> CertificateError {
        CertificateError::Unusable { certificate: self.certificate.clone(), key: self.key.clone(), source }
    }
}

impl MetricsSource for Certificates {
    fn collect(&self, page: &mut MetricsPage) {
        let validity = self.acceptor.identity().validity();
        page.gauge(
            "reel_tls_certificate_not_after_seconds",
            "When the certificate in use ends, in seconds since 1970.",
            &[],
            validity.not_after_s as f64,
        );
        for (result, count) in [("taken", &self.reloads), ("refused", &self.refusals)] {
            page.counter(
                "reel_tls_reloads_total",
                "Times the certificate was read again while the server ran.",
                &[("result", result)],
                count.load(Ordering::Relaxed),
            );
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| file_error("read", path, source);
    let mut bytes = Vec::new();
    let file = open_regular(path).map_err(failed)?;
    file.take(CERTIFICATE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > CERTIFICATE_FILE_BYTES_MAX {
        return Err(failed(io::Error::other(format!("it has more than {CERTIFICATE_FILE_BYTES_MAX} bytes"))));
    }
    Ok(bytes)
}

/// Writes a file completely or not at all. It never has more permissions than `mode`.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), CertificateError> {
    let failed = |source| file_error("write", path, source);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> CertificateError {
    CertificateError::File { action, path: path.to_owned(), source }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn files(directory: &Path, generate_for: Option<Vec<String>>) -> CertificateFiles {
        CertificateFiles {
            certificate: directory.join("tls/certificate.pem"),
            key: directory.join("tls/key.pem"),
            generate_for,
        }
    }

    fn generated(directory: &Path) -> CertificateFiles {
        files(directory, Some(vec!["localhost".into()]))
    }

    fn put(files: &CertificateFiles, made: &reel_tls::Generated) {
        write(&files.key, &made.key, 0o600).unwrap();
        write(&files.certificate, &made.certificate, 0o644).unwrap();
    }

    fn made(days_ago: u64) -> reel_tls::Generated {
        generate(&["localhost".into()], SystemTime::now() - Duration::from_secs(days_ago * 86_400)).unwrap()
    }

    #[test]
    fn a_generated_certificate_is_used_again_and_its_key_is_secret() {
        let directory = tempfile::tempdir().unwrap();
        let first = Certificates::load(generated(directory.path()), true).unwrap();
        first.poll();
        assert_eq!(first.reloads.load(Ordering::Relaxed), 0, "generating is no reload");
        let again = Certificates::load(generated(directory.path()), true).unwrap();
        assert_eq!(first.acceptor.identity().fingerprint(), again.acceptor.identity().fingerprint());
        let mode = fs::metadata(&first.files.key).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_generated_certificate_is_replaced_before_it_expires() {
        let directory = tempfile::tempdir().unwrap();
        let first = Certificates::load(generated(directory.path()), true).unwrap();
        put(&first.files, &made(370));
        let again = Certificates::load(generated(directory.path()), true).unwrap();
        assert!(again.left_s() > 390 * 86_400);
    }

    #[test]
    fn a_generated_certificate_stays_when_its_files_are_missing_or_damaged_while_the_server_runs() {
        let directory = tempfile::tempdir().unwrap();
        let certificates = Certificates::load(generated(directory.path()), true).unwrap();
        let first = certificates.acceptor.identity().fingerprint();
        fs::remove_file(&certificates.files.key).unwrap();
        assert!(!certificates.reload());
        fs::write(&certificates.files.key, "rubbish").unwrap();
        assert!(!certificates.reload());
        certificates.poll();
        assert_eq!(certificates.acceptor.identity().fingerprint(), first);
        assert_eq!(fs::read(&certificates.files.key).unwrap(), b"rubbish", "nothing is made");
        let again = Certificates::load(generated(directory.path()), true).unwrap();
        assert_ne!(again.acceptor.identity().fingerprint(), first, "at a start one is");
    }

    #[test]
    fn a_generated_certificate_is_replaced_before_it_expires_while_the_server_runs() {
        let directory = tempfile::tempdir().unwrap();
        let found = files(directory.path(), None);
        fs::create_dir(directory.path().join("tls")).unwrap();
        put(&found, &made(370));
        let certificates = Certificates::load(found, true).unwrap();
        let certificates = Certificates { files: generated(directory.path()), ..certificates };
        fs::remove_file(&certificates.files.key).unwrap();
        certificates.poll();
        assert!(certificates.left_s() > 390 * 86_400);
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path(), None);
        let error =
            |files: &CertificateFiles| Certificates::load(files.clone(), true).unwrap_err().to_string();
        assert!(error(&files).starts_with("cannot read"), "{}", error(&files));
        fs::create_dir(directory.path().join("tls")).unwrap();
        put(&files, &made(500));
        write(&files.certificate, &made(0).certificate, 0o644).unwrap();
        assert!(error(&files).contains("another key"), "{}", error(&files));
    }

    /// The clock may be wrong, and what needs no certificate is served all the same.
    #[test]
    fn a_certificate_of_another_time_is_used_until_a_good_one_is_there() {
        for wrong in [made(500), generate(&[], SystemTime::now() + Duration::from_secs(90_000)).unwrap()] {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("tls")).unwrap();
            let files = files(directory.path(), None);
            put(&files, &wrong);
            let certificates = Certificates::load(files, true).unwrap();
            let first = certificates.acceptor.identity().fingerprint();
            certificates.poll();
            assert_eq!(certificates.refusals.load(Ordering::Relaxed), 0, "nothing has changed");
            put(&certificates.files, &made(501));
            certificates.poll();
            assert_eq!(certificates.acceptor.identity().fingerprint(), first, "no better one");
            put(&certificates.files, &made(1));
            certificates.poll();
            assert_ne!(certificates.acceptor.identity().fingerprint(), first);
            assert!(certificates.acceptor.identity().validity().check(now_s()).is_ok());
        }
    }

    #[test]
    fn a_generated_certificate_of_a_clock_that_was_ahead_is_replaced_while_the_server_runs() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tls")).unwrap();
        let found = files(directory.path(), None);
        put(&found, &generate(&[], SystemTime::now() + Duration::from_secs(700 * 86_400)).unwrap());
        let certificates = Certificates::load(found, true).unwrap();
        let certificates = Certificates { files: generated(directory.path()), ..certificates };
        certificates.poll();
        assert!(certificates.acceptor.identity().validity().check(now_s()).is_ok());
    }

    #[test]
    fn at_a_reload_the_old_certificate_stays_until_the_new_one_can_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let certificates = Certificates::load(generated(directory.path()), true).unwrap();
        let certificates = Certificates { files: files(directory.path(), None), ..certificates };
        let shown = |certificates: &Certificates| certificates.acceptor.identity().fingerprint();
        let (first, next) = (shown(&certificates), made(1));
        certificates.poll();
        assert_eq!(certificates.reloads.load(Ordering::Relaxed), 0, "nothing has changed");
        // A renewal does it in the same way: one file after the other.
        write(&certificates.files.certificate, &next.certificate, 0o644).unwrap();
        certificates.poll();
        assert_eq!(shown(&certificates), first);
        assert_eq!(certificates.refusals.load(Ordering::Relaxed), 1);
        certificates.poll();
        assert_eq!(certificates.refusals.load(Ordering::Relaxed), 1, "told once");
        write(&certificates.files.key, &next.key, 0o600).unwrap();
        certificates.poll();
        assert_ne!(shown(&certificates), first);
        fs::remove_file(&certificates.files.key).unwrap();
        certificates.poll();
        assert_eq!(certificates.refusals.load(Ordering::Relaxed), 1, "files on their way are waited for");
        assert!(!certificates.reload(), "but not when asked for");
    }
}
