//! The command line of `reel load`.

use anyhow::{Result, ensure};
use clap::Parser;
use reel_load::{
    ArrivalShape, Arrivals, Hls, Paced, Plan, Reading, Rendition, Viewing, check, own_addresses,
};
use std::time::Duration;

/// What follows the options.
const AFTER_HELP: &str = "\
Times are in seconds; rates in bits per second, with k, M, G for powers of 1000; sizes in bytes, with K, M, G for powers of 1024.

  reel load http://127.0.0.1:8080/ --viewers 200 --arrive-over 20 --duration 120
  reel load http://127.0.0.1:8080/ -n 100 --zipf 1 --vcr=30 --downloads 4 --browsers 10 --duration 60
  reel load http://127.0.0.1:8081/film/master.m3u8 -n 50 --expect-no-late
  reel load --paced 5M --block 256K http://127.0.0.1:8081/a.mp4 http://127.0.0.1:8081/b.mp4 -n 20 --duration 60";

/// Run players and other clients against any HLS server, and measure start-up, stalls and late
/// bytes.
#[derive(Parser, Debug)]
#[command(name = "reel load", override_usage = "reel load [OPTIONS] URL...", after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct LoadArguments {
    /// Playlists, or the address of a Reel server; with --paced, plain files.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Number of players (or of paced readers); 1 if no other clients are requested.
    #[arg(long, short = 'n')]
    viewers: Option<usize>,
    /// End after so many seconds; otherwise when every viewer has seen one title.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads of the fleet.
    #[arg(long, default_value_t = 2)]
    threads: usize,

    /// Which rendition players take.
    #[arg(long, value_enum, default_value_t = Rendition::Highest, help_heading = "Players")]
    rendition: Rendition,
    /// Media that must be buffered before the player starts; at least one segment. With --paced:
    /// time to the first deadline [one block].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Players")]
    startup: Option<Duration>,
    /// Media that is fetched ahead of the playing position [30]. With --paced: how long before its
    /// deadline a block is requested [two blocks].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Players")]
    buffer: Option<Duration>,
    /// Viewers pause, seek or change the title, on average once in this time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, require_equals = true,
          default_missing_value = "60", help_heading = "Players")]
    vcr: Option<Duration>,
    /// Choose titles by Zipf's law with this exponent; the first URL is the most popular. Otherwise
    /// titles are played in turn.
    #[arg(long, value_name = "ALPHA", help_heading = "Players")]
    zipf: Option<f64>,
    /// Refused viewers try again at the time that the server gave; otherwise they leave.
    #[arg(long, help_heading = "Players")]
    retry: bool,
    /// Open sessions in this class (Reel only).
    #[arg(long, help_heading = "Players")]
    class: Option<String>,
    /// Time over which the clients arrive.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", help_heading = "All clients")]
    arrive_over: Duration,
    /// Distribution of the times between arrivals.
    #[arg(long, value_enum, default_value_t = ArrivalShape::Poisson, help_heading = "All clients")]
    arrivals: ArrivalShape,

    /// Read plain files at this rate instead, with a deadline for every block.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Paced readers")]
    paced: Option<u64>,
    /// Size of one request of a paced reader.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256K", help_heading = "Paced readers")]
    block: u64,

    /// Clients that fetch whole files as fast as possible.
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = "Other clients")]
    downloads: usize,
    /// What downloads fetch; by default the titles of a Reel server as files.
    #[arg(long, value_name = "URL", help_heading = "Other clients")]
    download_url: Vec<String>,
    /// Let downloads read random ranges of this size instead, one after another.
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Other clients")]
    download_bytes: Option<u64>,
    /// Mean pause of a download between two requests.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", help_heading = "Other clients")]
    download_think: Duration,
    /// Clients that make small requests with pauses in between.
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = "Other clients")]
    browsers: usize,
    /// What browsers request; by default the pages and posters of a Reel server.
    #[arg(long, value_name = "URL", help_heading = "Other clients")]
    browse_url: Vec<String>,
    /// Let browsers read random ranges of this size instead of whole files.
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Other clients")]
    browse_bytes: Option<u64>,
    /// Mean pause of a browser between two requests.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.5", help_heading = "Other clients")]
    browse_think: Duration,
    /// Highest rate of each client, in bits per second.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "All clients")]
    rate_limit: Option<u64>,

    /// Local addresses that clients use in turn (ADDR or FIRST-LAST). By default each client on
    /// loopback has its own.
    #[arg(long, value_name = "ADDR", value_delimiter = ',', help_heading = "All clients")]
    from: Vec<String>,
    /// Fail (exit code 1) if a byte was late, or if nothing was shown.
    #[arg(long)]
    pub(super) expect_no_late: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(super) json: bool,
}

impl LoadArguments {
    /// The plan of these options; an error is one of usage.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let others = self.downloads + self.browsers;
        let viewing = match self.paced {
            Some(rate_bps) => {
                let only_players = self.vcr.is_some() || self.zipf.is_some() || self.retry;
                ensure!(!only_players, "--vcr, --zipf and --retry are for players, not for paced readers");
                Viewing::Paced(Paced {
                    rate_bps,
                    block_bytes: self.block,
                    startup: self.startup,
                    ahead: self.buffer,
                })
            }
            None => Viewing::Hls(Hls {
                rendition: self.rendition,
                startup: self.startup.unwrap_or(Hls::default().startup),
                buffer: self.buffer.unwrap_or(Hls::default().buffer),
                vcr: self.vcr.filter(|mean| !mean.is_zero()),
                zipf: self.zipf,
                retry: self.retry,
            }),
        };
        let plan = Plan {
            urls: self.urls.clone(),
            viewers: self.viewers.unwrap_or(usize::from(others == 0)),
            viewing,
            class: self.class.clone(),
            downloads: Reading {
                clients: self.downloads,
                urls: self.download_url.clone(),
                range_bytes: self.download_bytes,
                think: self.download_think,
            },
            browsers: Reading {
                clients: self.browsers,
                urls: self.browse_url.clone(),
                range_bytes: self.browse_bytes,
                think: self.browse_think,
            },
            rate_limit_bps: self.rate_limit,
            from: self.from.iter().map(|text| own_addresses(text)).collect::<Result<Vec<_>>>()?.concat(),
            arrivals: Arrivals { over: self.arrive_over, shape: self.arrivals },
            duration: self.duration,
            seed: self.seed,
            threads: self.threads,
        };
        check(&plan)?;
        Ok(plan)
    }
}

/// A year: beyond it a number of seconds is a mistake.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds, such as 90 or 0.5".to_owned()),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    scaled(text, 1000.0).ok_or_else(|| "write a rate in bits per second, such as 5M or 800k".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    scaled(text, 1024.0).ok_or_else(|| "write a size in bytes, such as 256K or 1M".to_owned())
}

/// A number of at least 1, with k, M, G or T for powers of `base`.
fn scaled(text: &str, base: f64) -> Option<u64> {
    let letter = text.chars().last()?;
    let power = "kmgt".find(letter.to_ascii_lowercase()).map(|place| place as i32 + 1);
    let digits = if power.is_some() { &text[..text.len() - 1] } else { text };
    let number: f64 = digits.parse().ok()?;
    let value = number * base.powi(power.unwrap_or(0));
    (1.0..=1e18).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn plan(words: &str) -> Result<Plan> {
        Line::try_parse_from(words.split(' '))?.load.plan()
    }

    #[test]
    fn defaults_are_one_player_of_the_highest_rendition() {
        assert_eq!(
            plan("load http://h/").unwrap(),
            Plan {
                arrivals: Arrivals { over: Duration::ZERO, shape: ArrivalShape::Poisson },
                browsers: Reading { think: Duration::from_millis(500), ..Reading::default() },
                ..Plan::players(vec!["http://h/".into()], 1)
            }
        );
        assert_eq!(plan("load http://h/ --downloads 3").unwrap().viewers, 0);
    }

    #[test]
    fn numbers_have_units() {
        let paced = plan("load http://h/a --paced 2.5M --block 64K --buffer 3").unwrap().viewing;
        let wanted = Paced {
            rate_bps: 2_500_000,
            block_bytes: 65_536,
            startup: None,
            ahead: Some(Duration::from_secs(3)),
        };
        assert_eq!(paced, Viewing::Paced(wanted));
        for words in ["--paced 0", "--paced x", "--block -1", "--duration -1", "--duration 1e99", "--paced M"]
        {
            assert!(plan(&format!("load http://h/a {words}")).is_err(), "{words}");
        }
    }

    #[test]
    fn a_remote_control_has_a_default_and_is_not_for_paced_readers() {
        let vcr = |words: &str| match plan(&format!("load --vcr{words} http://h/")).unwrap().viewing {
            Viewing::Hls(hls) => hls.vcr,
            Viewing::Paced(_) => None,
        };
        assert_eq!((vcr(""), vcr("=5")), (Some(Duration::from_secs(60)), Some(Duration::from_secs(5))));
        assert!(plan("load http://h/a --paced 1M --vcr").is_err());
    }
}
