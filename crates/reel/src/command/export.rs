//! `reel export`: writes a title as one MP4 file.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use reel_library::{Library, LibraryError};

use super::{Access, open_library};
use crate::args::ExportArguments;
use crate::failure::{Exit, Failure};
use crate::new_file::NewFile;
use crate::progress::{Meter, Unit, rate_text};

/// `reel export`.
pub(super) fn run(arguments: &ExportArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Read)?;
    let record = library.record(&arguments.title).map_err(|error| Failure::library(&error))?;
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.mp4", record.id)));
    if output == Path::new("-") {
        let mut stdout = BufWriter::new(io::stdout().lock());
        return match export(&library, &record.id, &mut stdout, quiet) {
            Err(LibraryError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
            Err(error) => Err(Failure::library(&error)),
            Ok(()) => Ok(Exit::Done),
        };
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!("{} already exists", output.display()))
            .help("choose another name, or use --force to replace it"),
        io::ErrorKind::InvalidInput => Failure::path("replace", &output, &error)
            .help("choose another name; for a pipe or device use `reel export VOLUME TITLE - > PATH`"),
        _ => Failure::path("write", &output, &error),
    };
    let mut file = NewFile::create(&output, arguments.force).map_err(failed)?;
    match export(&library, &record.id, &mut file, quiet) {
        Err(LibraryError::Output(error)) => return Err(failed(error)),
        Err(error) => return Err(Failure::library(&error)),
        Ok(()) => {}
    }
    file.publish().map_err(failed)?;
    Ok(Exit::Done)
}

fn export(library: &Library, id: &str, output: &mut dyn Write, quiet: bool) -> Result<(), LibraryError> {
    let begun = Instant::now();
    let mut meter = Meter::new(id, Unit::Bytes, quiet);
    let bytes = library.export(id, output, &mut |done, total| meter.set(done, total))?;
    meter.finish(&format!("{id}: {}", rate_text(bytes, begun.elapsed())));
    let left_out = library.omitted_from_export(id)?;
    if !quiet && !left_out.is_empty() {
        eprintln!(
            "{id}: not in the file: {}; an export has the best rendition and all audio",
            left_out.join(", ")
        );
    }
    Ok(())
}
