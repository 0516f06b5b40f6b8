//! `reel export`: writes a title as one MP4 file, or as the transport stream that it was.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use reel_library::{Library, LibraryError, is_merged};

use super::{Access, open_library};
use crate::args::{ExportArguments, FormName};
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::new_file::NewFile;
use crate::progress::{Meter, Unit, rate_text};

/// `reel export`.
pub(super) fn run(arguments: &ExportArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Read)?;
    let id = &arguments.title;
    // Before there is a file to write to.
    let found = if is_merged(id) { library.open(id).map(drop) } else { library.record(id).map(drop) };
    found.map_err(|error| Failure::library(&error))?;
    let form = arguments.form;
    let extension = match form {
        FormName::Cmaf => "mp4",
        FormName::Ts => "ts",
    };
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.{extension}")));
    let export = |output: &mut dyn Write| export(&library, id, form, output, quiet);
    if output == Path::new("-") {
        let mut stdout = BufWriter::new(io::stdout().lock());
        return match export(&mut stdout) {
            Err(LibraryError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
            Err(error) => Err(Failure::library(&error)),
            Ok(()) => Ok(Exit::Done),
        };
    }
    let failed = |error: io::Error| Failure::path("write", &output, &error);
    let mut file = NewFile::at_users_path(&output, arguments.force)?;
    match export(&mut file) {
        Err(LibraryError::Output(error)) => return Err(failed(error)),
        Err(error) => return Err(Failure::library(&error)),
        Ok(()) => {}
    }
    file.publish().map_err(failed)?;
    Ok(Exit::Done)
}

fn export(
    library: &Library,
    id: &str,
    form: FormName,
    output: &mut dyn Write,
    quiet: bool,
) -> Result<(), LibraryError> {
    let begun = Instant::now();
    let mut meter = Meter::new(id, Unit::Bytes, quiet);
    let mut progress = |done, total| meter.set(done, total);
    let bytes = match form {
        FormName::Cmaf => library.export(id, output, &mut progress)?,
        FormName::Ts => library.export_stream(id, output, &mut progress)?,
    };
    meter.finish(&format!("{id}: {}", rate_text(bytes, begun.elapsed())));
    if form == FormName::Ts {
        return Ok(());
    }
    let left_out = library.omitted_from_export(id)?;
    if !quiet && !left_out.is_empty() {
        say(format!(
            "{id}: not in the file: {}; an export has the best rendition and all audio",
            left_out.join(", ")
        ));
    }
    Ok(())
}
