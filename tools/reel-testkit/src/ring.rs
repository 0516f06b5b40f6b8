use std::error::Error;
use std::io;

/// "Operation not permitted" and "Function not implemented" (Linux, errno-base.h and errno.h).
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// The ring that was made. If the kernel has no io_uring or forbids it, prints that the test is
/// skipped and returns `None`.
///
/// # Panics
/// If there is no ring for any other reason: a limit that is reached for a moment (memory, files)
/// is no property of the machine, and a test that is left out for it says nothing.
#[track_caller]
pub fn ring_or_skip<T, E: Error + 'static>(made: Result<T, E>) -> Option<T> {
    let error = match made {
        Ok(ring) => return Some(ring),
        Err(error) => error,
    };
    let errno = errno(&error);
    assert!(matches!(errno, Some(EPERM | ENOSYS)), "no io_uring, with errno {errno:?}: {error}");
    println!("skipped: no io_uring");
    None
}

/// The number of the first error of the kernel among an error and its causes.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(errno) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(errno);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with the kernel's answer as its cause, as rings have it.
    #[derive(Debug)]
    struct Refused(io::Error);

    impl std::fmt::Display for Refused {
        fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            to.write_str("refused")
        }
    }

    impl Error for Refused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn refused(errno: i32) -> Result<(), Refused> {
        Err(Refused(io::Error::from_raw_os_error(errno)))
    }

    #[test]
    fn a_ring_that_was_made_is_returned() {
        assert_eq!(ring_or_skip(Ok::<_, Refused>(7)), Some(7));
    }

    #[test]
    #[should_panic(expected = "no io_uring, with errno Some(12): refused")]
    fn a_shortage_of_memory_fails() {
        ring_or_skip(refused(12));
    }

    #[test]
    fn only_a_kernel_without_rings_counts() {
        let number = |errno: i32| super::errno(&refused(errno).expect_err("refused"));
        assert_eq!((number(EPERM), number(ENOSYS)), (Some(1), Some(38)));
    }
}
