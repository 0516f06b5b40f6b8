//! The command line. Its help is the manual.

mod cast;
mod mount;
mod pour;
mod receive;
mod tap;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::config::parse_address;
use crate::limits::{FILM_BPS_MAX, PROBE_S_MAX};
use crate::rate::Rate;
use crate::size::Size;

pub(crate) use cast::{
    CastAddArguments, CastCommand, CastListArguments, CastPlanArguments, CastSdpArguments, CastStopArguments,
};
pub(crate) use mount::MountArguments;
pub(crate) use pour::PourArguments;
pub(crate) use receive::ReceiveArguments;
pub(crate) use tap::TapArguments;

/// The text of `reel help` after the list of commands.
const AFTER_HELP: &str = "\
To create and serve a volume:
  reel volume create films --size 200G
  reel ingest films *.mkv
  reel serve films

Exit codes:
  0  done
  1  the work failed; the message says why
  2  wrong usage or configuration; nothing was started
  3  a volume, title or file that was named does not exist
  4  `volume check` found damage (titles may still play: the report says which)";

/// Reel stores films on striped, parity-protected disks and plays them over HTTP.
#[derive(Debug, Parser)]
#[command(name = "reel", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Show no progress, warnings or notes: only errors, and the requested output
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make sample films, a volume of five members and a server, and print the URL to open
    Demo(DemoArguments),

    /// Create, inspect and repair volumes
    #[command(subcommand)]
    Volume(VolumeCommand),

    /// Read films to their ends, and say what `ingest` would store of them and what it would leave
    /// out; stores nothing
    Check(CheckArguments),

    /// Store films in a volume: mp4, mov, mkv, webm, ts; never transcoded
    Ingest(IngestArguments),

    /// Add a file of subtitles to a stored title: srt, vtt, ass
    Subtitles(SubtitlesArguments),

    /// Add a form to a stored title
    #[command(subcommand)]
    Form(FormCommand),

    /// List the titles of a volume
    Titles(TitlesArguments),

    /// Remove titles from a volume
    Remove(RemoveArguments),

    /// Write a title to an MP4 file that decodes identically: its best rendition and all audio,
    /// without subtitles; or to the transport stream that it was made from
    Export(ExportArguments),

    /// Measure the disks of a volume, so that a server can reserve what they can do
    Probe(ProbeArguments),

    /// Show how many viewers a volume can admit, how many it carries while healthy, and what limits
    /// the number
    Capacity(CapacityArguments),

    /// Broadcast titles to any number of receivers, from a running server
    #[command(subcommand)]
    Cast(CastCommand),

    /// Receive a cast, repair lost packets with its FEC, and write its transport stream to a file
    /// or a player: `reel receive http://host:8080/casts/NAME.sdp | mpv -`
    Receive(ReceiveArguments),

    /// Serve a volume over HTTP until SIGTERM or SIGINT
    ///
    /// At its start the log shows how much memory the server may use at most, with all parts; see
    /// docs/running.md
    Serve(ServeArguments),

    /// Show a running server as files until SIGTERM or SIGINT: `cat DIR/capacity`
    ///
    /// DIR/titles/TITLE/{name,seconds,rate}, DIR/capacity, DIR/members/MEMBER/{state,price},
    /// DIR/classes/CLASS/{kind,share}; see docs/files.md. After SIGKILL the directory has to be
    /// unmounted by hand: fusermount3 -u DIR
    Mount(MountArguments),

    /// Write a title to standard output, straight from a running server's memory: `reel tap TITLE |
    /// ffmpeg -i - ...`
    Tap(TapArguments),

    /// Play standard input to others while it comes: `reel tap TITLE | FILTER | reel pour NAME
    /// --rate 5M`
    ///
    /// Nothing is stored. The server keeps a few seconds; a viewer that is behind by more is cut
    /// off. See docs/programs.md
    Pour(PourArguments),

    /// Run many players against any HLS server and measure start-up, stalls and late bytes: `reel
    /// load --help`
    #[command(disable_help_flag = true)]
    Load(LoadArguments),

    /// Run an experiment: `reel bench peers --help`
    #[command(disable_help_flag = true)]
    Bench(BenchArguments),

    /// Run the server with simulated disks, clients and time; one seed gives one run: `reel sim
    /// --help`
    #[command(disable_help_flag = true)]
    Sim(SimArguments),
}

/// `reel bench`: all arguments go to the program `reel-bench`, so that the server does not contain
/// its experiments.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// The experiment and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// `reel sim`: all arguments are passed to the program `reel-sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArguments {
    /// The seed and other options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// `reel load`: all arguments go to the program `reel-load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// Addresses of playlists or of a Reel server, and options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// `reel demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Directory for films and volume; they are used again next time
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub(crate) dir: PathBuf,

    /// Use the films of this directory instead of generated ones
    #[arg(long, value_name = "DIR")]
    pub(crate) media: Option<PathBuf>,

    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address, default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
}

/// `reel volume ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create a volume of files or block devices
    Create(CreateArguments),

    /// Show members, geometry and space
    Status(VolumeArguments),

    /// List the members in a directory and on disks, and write a volume.toml that was lost
    Find(FindArguments),

    /// Read and verify everything, and report damage
    Check(VolumeArguments),

    /// Read and verify everything, and repair damage
    Scrub(ScrubArguments),

    /// Replace a member by a new disk, which `rebuild` then fills
    Replace(ReplaceArguments),

    /// Fill a member that is new or was missing, and put it in use
    Rebuild(RebuildArguments),
}

/// `reel volume find`.
#[derive(Debug, Args)]
pub(crate) struct FindArguments {
    /// The directory that has, or should have, the volume.toml
    pub(crate) dir: PathBuf,

    /// Disks and files elsewhere that are members too
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,

    /// Write volume.toml from what was found, if there is none that can be read
    #[arg(long)]
    pub(crate) write: bool,

    /// The volume to write it for, if members of several were found
    #[arg(long, value_name = "ID", requires = "write")]
    pub(crate) volume: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel volume scrub`.
#[derive(Debug, Args)]
pub(crate) struct ScrubArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Bytes per second, at most: 50M; no limit if not given
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<Size>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel volume rebuild`.
#[derive(Debug, Args)]
pub(crate) struct RebuildArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// The member's number; the one that is new or was missing if not given
    pub(crate) member: Option<usize>,

    /// Read everything on a member that was missing, also what its own catalogue names
    #[arg(long)]
    pub(crate) verify: bool,

    /// Bytes per second, at most: 50M; no limit if not given
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<Size>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel volume replace`.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// The member's number, as `reel volume status` shows it
    pub(crate) member: usize,

    /// An empty block device, an empty file, or a new file in the volume's directory
    pub(crate) path: PathBuf,

    /// Make a new file of the size of a member at PATH, wherever that is
    #[arg(long)]
    pub(crate) create: bool,

    /// Overwrite what is at PATH, if it is not empty; never a member of another volume
    #[arg(long)]
    pub(crate) force: bool,

    /// Overwrite PATH even if it is a member of another volume, whose titles may then be lost
    #[arg(long)]
    pub(crate) overwrite_volume: bool,

    /// Replace the member even if it is in use and healthy
    #[arg(long)]
    pub(crate) replace_healthy: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel volume create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// The volume's directory; it is created if it does not exist
    pub(crate) dir: PathBuf,

    /// The number of members (files in DIR), or the files or block devices themselves
    #[arg(long, value_name = "COUNT|PATH", num_args = 1.., default_value = "5")]
    pub(crate) members: Vec<String>,

    /// Parity rows: so many members can be lost at once without loss of data
    #[arg(long, value_name = "ROWS", default_value_t = 1)]
    pub(crate) parity: usize,

    /// How parity is computed
    #[arg(long, value_enum, default_value_t = CodeName::Xor)]
    pub(crate) code: CodeName,

    /// Size of all members together, parity included: 20G, 1.5T (powers of 1024), 20GB (powers of
    /// 1000)
    #[arg(long, default_value = "20G")]
    pub(crate) size: Size,

    /// Overwrite existing content, also the volume that DIR names; never members of another volume
    #[arg(long)]
    pub(crate) force: bool,

    /// Overwrite members of other volumes too, whose titles are then lost
    #[arg(long)]
    pub(crate) overwrite_volume: bool,

    /// Sizes for a purpose: cmaf for players, ts for transport streams whose parity is sent
    #[arg(long, value_enum, default_value_t = FormName::Cmaf, help_heading = "Geometry")]
    pub(crate) geometry: FormName,

    /// Bytes of a symbol, the smallest unit of parity; 1408 for cmaf, 1316 for ts if not given
    #[arg(long, value_name = "BYTES", help_heading = "Geometry")]
    pub(crate) symbol_bytes: Option<usize>,

    /// Symbols of a row; 32 for cmaf, up to 20 for ts if not given
    #[arg(long, value_name = "COUNT", help_heading = "Geometry")]
    pub(crate) row_symbols: Option<usize>,

    /// Rows of a unit, which is read at once; 6 for cmaf, 7 or more for ts if not given
    #[arg(long, value_name = "COUNT", help_heading = "Experimental")]
    pub(crate) unit_rows: Option<usize>,

    /// Data rows of a matrix; members minus parity rows if not given
    #[arg(long, value_name = "COUNT", help_heading = "Geometry")]
    pub(crate) data_rows: Option<usize>,

    /// Size of each of the two catalogue areas of a member; 0.2 % of the member if not given
    #[arg(long, value_name = "SIZE", help_heading = "Geometry")]
    pub(crate) catalogue: Option<Size>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The forms of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormName {
    /// Fragments of tracks, for players; one MP4 file when exported
    Cmaf,
    /// A transport stream as it is
    Ts,
}

/// The codes to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeName {
    /// One parity row, the exclusive or of all data rows
    Xor,
}

/// `reel volume status|check`.
#[derive(Debug, Args)]
pub(crate) struct VolumeArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel ingest`.
#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Films; each becomes a title
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The title's name, for a single file; made from the file's name if not given
    #[arg(long, conflicts_with = "title")]
    pub(crate) name: Option<String>,

    /// Store all files as renditions of one title with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) title: Option<String>,

    /// What to store: cmaf, for players; or ts, a transport stream as it is or made of the tracks
    /// of another file, and cmaf beside it if players can play it
    #[arg(long, value_enum, default_value_t = FormName::Cmaf)]
    pub(crate) form: FormName,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Films
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The files are renditions of one title
    #[arg(long)]
    pub(crate) renditions: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel subtitles`.
#[derive(Debug, Args)]
pub(crate) struct SubtitlesArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Id of a title, as `reel titles` lists it
    pub(crate) title: String,

    /// The file of subtitles
    pub(crate) file: PathBuf,

    /// Their language: en, deu or pt-BR; taken from the file's name (FILM.de.srt) if not given
    #[arg(long, value_name = "TAG")]
    pub(crate) language: Option<String>,

    /// What players show for them; the language if not given
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// They are shown even if no subtitles are chosen
    #[arg(long)]
    pub(crate) forced: bool,
}

/// `reel form ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum FormCommand {
    /// Make a transport stream of the tracks of a title, without transcoding, and store it beside
    /// what players use
    Add(FormAddArguments),
}

/// `reel form add`.
#[derive(Debug, Args)]
pub(crate) struct FormAddArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Id of a title, as `reel titles` lists it
    pub(crate) title: String,

    /// The form to add
    #[arg(value_enum)]
    pub(crate) form: AddedForm,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forms that are made of the tracks of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddedForm {
    /// A transport stream of the best pictures and all sound
    Ts,
}

/// `reel titles`.
#[derive(Debug, Args)]
pub(crate) struct TitlesArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// List what was left out of titles or changed when they were added, instead of the titles
    #[arg(long)]
    pub(crate) warnings: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Ids of titles, as `reel titles` lists them
    #[arg(required = true, value_name = "TITLE")]
    pub(crate) titles: Vec<String>,
}

/// `reel export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// Id of a title, as `reel titles` lists it
    pub(crate) title: String,

    /// The file to write, or `-` for standard output; TITLE.mp4 or TITLE.ts in the current
    /// directory if not given
    pub(crate) output: Option<PathBuf>,

    /// What to write: cmaf, one MP4 file; or ts, the transport stream as it was ingested
    #[arg(long, value_enum, default_value_t = FormName::Cmaf)]
    pub(crate) form: FormName,

    /// Replace the file if it exists; never a part of a volume
    #[arg(long)]
    pub(crate) force: bool,
}

/// `reel probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// A volume's directory, where the profiles of its members are stored; or a single file or
    /// block device
    pub(crate) path: PathBuf,

    /// How long to measure; 3 for each member, at most 30, if not given. 60 is better for hard
    /// disks. Where something else uses a disk, it may take ten times as long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=PROBE_S_MAX))]
    pub(crate) seconds: Option<u32>,

    /// Measure writes too, into a temporary file beside each member, never into the member
    #[arg(long)]
    pub(crate) write: bool,

    /// Read into small memory pages, for a server whose media memory has only these. Such a server
    /// recommends this option in its log
    #[arg(long)]
    pub(crate) small_pages: bool,

    /// Where to store the profile of a single file or device; it is printed if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel capacity`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("viewers").required(true).args(["rate", "title"])))]
pub(crate) struct CapacityArguments {
    /// The volume's directory
    pub(crate) volume: PathBuf,

    /// For viewers of a stream of this constant rate: 8M, 2.5M (bits per second, powers of 1000)
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) rate: Option<Rate>,

    /// For viewers of this title, counted round by round as admission does
    #[arg(long, value_name = "TITLE")]
    pub(crate) title: Option<String>,

    /// Use the threads, memory and network of this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `reel serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The volume's directory; overrides the configuration's
    pub(crate) volume: Option<PathBuf>,

    /// Configuration file; the example reel.toml explains every key
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Address and port to listen on; overrides the configuration's
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Address and port for HTTPS; overrides the configuration's. Without a certificate in the
    /// configuration, a self-signed one is generated
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) https: Option<SocketAddr>,

    /// Ingest films that are put into this directory; overrides the configuration's
    #[arg(long, value_name = "DIR")]
    pub(crate) watch: Option<PathBuf>,

    /// Address and port for NFS (version 3, over TCP), which is off without it; overrides the
    /// configuration's
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) nfs: Option<SocketAddr>,

    /// Let programs of this user read titles from the server's memory, through this socket
    #[arg(long, value_name = "PATH")]
    pub(crate) programs_socket: Option<PathBuf>,
}

/// A rate above zero.
fn parse_rate(text: &str) -> Result<Rate, String> {
    match text.parse() {
        Ok(Rate(0)) => Err("the rate must be above zero".to_owned()),
        Ok(rate) if rate.0 > FILM_BPS_MAX => Err(format!("the rate must be at most {}", Rate(FILM_BPS_MAX))),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::failure::Exit;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_exit_code_is_explained() {
        for exit in [Exit::Done, Exit::Failed, Exit::Usage, Exit::NotFound, Exit::Damaged] {
            assert!(AFTER_HELP.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
        }
    }

    #[test]
    fn members_are_a_count_or_paths() {
        let parse = |words: &[&str]| match Arguments::try_parse_from(words).unwrap().command {
            Command::Volume(VolumeCommand::Create(create)) => create,
            other => panic!("{other:?}"),
        };
        assert_eq!(parse(&["reel", "volume", "create", "d"]).members, ["5"]);
        let create = parse(&["reel", "volume", "create", "d", "--members", "/a", "/b", "--size", "1G"]);
        assert_eq!(create.members, ["/a", "/b"]);
        assert_eq!(create.size, Size(1 << 30));
    }

    #[test]
    fn one_name_and_many_renditions_exclude_each_other() {
        assert!(
            Arguments::try_parse_from(["reel", "ingest", "v", "f", "--name", "a", "--title", "b"]).is_err()
        );
    }
}
