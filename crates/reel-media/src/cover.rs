//! Pictures that stand for a film and lie in the same file.

/// A cover as its file holds it. Nothing about its bytes is certain except what is said here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cover {
    /// A picture file.
    Picture {
        /// Its format, by its first bytes.
        format: PictureFormat,
        /// The file, of a bounded size.
        bytes: Vec<u8>,
    },
    /// A video track of one picture: its position among the video tracks of the file, from 0.
    Track(usize),
}

/// The formats of covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// ISO/IEC 10918-1.
    Jpeg,
    /// ISO/IEC 15948.
    Png,
}

impl PictureFormat {
    /// The format of a file that begins with these bytes.
    pub fn of(head: &[u8]) -> Option<PictureFormat> {
        if head.starts_with(b"\xff\xd8\xff") {
            Some(PictureFormat::Jpeg)
        } else {
            head.starts_with(b"\x89PNG\r\n\x1a\n").then_some(PictureFormat::Png)
        }
    }
}

/// A cover that is not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoverPlace {
    /// A picture file at `offset` of the film's file.
    Picture { format: PictureFormat, offset: u64, bytes: usize },
    /// As [`Cover::Track`].
    Track(usize),
}

impl CoverPlace {
    /// Reads the cover with `read`, which gets an offset and the bytes to fill.
    pub(crate) fn load<E>(self, read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>) -> Result<Cover, E> {
        match self {
            CoverPlace::Track(position) => Ok(Cover::Track(position)),
            CoverPlace::Picture { format, offset, bytes } => {
                let mut picture = vec![0; bytes];
                read(offset, &mut picture)?;
                Ok(Cover::Picture { format, bytes: picture })
            }
        }
    }
}

/// Bytes at the beginning of a picture that show its format.
pub(crate) const PICTURE_HEAD_BYTES: usize = 8;
