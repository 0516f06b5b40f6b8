//! What there is to see: the plan's addresses, or the titles of a Reel library.

use super::http::Connection;
use super::origin::{Origin, Role};
use super::plan::{Plan, Viewing};
use super::request_error::RequestError;
use super::thread::Thread;
use anyhow::{Context, Result, anyhow, ensure};
use reel_testkit::Url;
use serde_json::Value;
use std::rc::Rc;

/// What clients choose from.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// What viewers open.
    pub(crate) titles: Vec<Url>,
    /// What downloads fetch.
    pub(crate) downloads: Vec<Url>,
    /// What browsers ask for.
    pub(crate) pages: Vec<Url>,
}

impl Catalogue {
    /// Asks the libraries among the plan's addresses for their titles.
    pub(crate) async fn find(plan: &Plan, thread: &Rc<Thread>) -> Result<Self> {
        let mut all = Self::default();
        for text in &plan.urls {
            let url = Url::parse(text)?;
            if url.path() == "/" {
                all.add_library(plan, &url, thread)
                    .await
                    .with_context(|| format!("asking {url} for its titles"))?;
            } else {
                all.add_address(plan, url);
            }
        }
        let parse = |urls: &[String]| urls.iter().map(|url| Url::parse(url)).collect::<Result<Vec<_>>>();
        if !plan.downloads.urls.is_empty() {
            all.downloads = parse(&plan.downloads.urls)?;
        }
        if !plan.browsers.urls.is_empty() {
            all.pages = parse(&plan.browsers.urls)?;
        }
        if all.pages.is_empty() {
            all.pages.clone_from(&all.titles);
        }
        ensure!(
            plan.viewers == 0 || !all.titles.is_empty(),
            "there is nothing to watch; ingest a film first"
        );
        ensure!(
            plan.downloads.clients == 0 || !all.downloads.is_empty(),
            "there is nothing to download; name it with --download-url"
        );
        ensure!(
            plan.browsers.clients == 0 || !all.pages.is_empty(),
            "there is nothing to ask for; name it with --browse-url"
        );
        Ok(all)
    }

    async fn add_library(&mut self, plan: &Plan, root: &Url, thread: &Rc<Thread>) -> Result<()> {
        let mut connection = Connection::new(thread, Origin::of(&plan.from, Role::Browser, 0));
        let error = |error: RequestError| anyhow!("{}", error.reason());
        connection.get(&below(root, "/api/v1/titles")?, None).await.map_err(error)?;
        let text = connection.text().await.map_err(error)?;
        let body: Value =
            serde_json::from_str(&text).context("the answer is no JSON; is this a Reel server?")?;
        let titles = body["titles"].as_array().context("the answer has no titles; is this a Reel server?")?;
        self.pages.extend([root.clone(), below(root, "/api/v1/titles")?]);
        for title in titles {
            let at = |name: &str, value: &Value| {
                let path = value.as_str().with_context(|| format!("a title without {name}"))?;
                below(root, path)
            };
            let watch = match plan.viewing {
                Viewing::Hls(_) => at("watch.hls", &title["watch"]["hls"])?,
                Viewing::Paced(_) => at("watch.progressive", &title["watch"]["progressive"])?,
            };
            self.titles.push(in_class(plan, watch));
            self.downloads.push(at("download", &title["download"])?);
            self.pages.push(at("poster", &title["poster"])?);
        }
        Ok(())
    }

    fn add_address(&mut self, plan: &Plan, url: Url) {
        let mut names = url.path().rsplit('/').skip(1);
        if let (Some(title), Some("watch")) = (names.next(), names.next())
            && let Ok(download) = url.join(&format!("../../files/{title}.mp4"))
        {
            self.downloads.push(download);
        }
        self.titles.push(in_class(plan, url));
    }
}

/// An address that the server gave, for the address of its library. It is complete if the server
/// knows below which path it is.
fn below(root: &Url, path: &str) -> Result<Url> {
    let home = root.path().trim_end_matches('/');
    match path.strip_prefix(home) {
        Some(rest) if rest.starts_with('/') => root.join(path),
        _ => root.join(&format!("{home}{path}")),
    }
}

fn in_class(plan: &Plan, url: Url) -> Url {
    match &plan.class {
        Some(class) => url.with_query("class", class),
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_gives_is_below_the_address_of_its_library_once() {
        for (root, path, address) in [
            ("http://h:1", "/img/a.jpg", "http://h:1/img/a.jpg"),
            ("http://h:1/", "/img/a.jpg", "http://h:1/img/a.jpg"),
            ("http://h:1/reel", "/img/a.jpg", "http://h:1/reel/img/a.jpg"),
            ("http://h:1/reel/", "/reel/img/a.jpg", "http://h:1/reel/img/a.jpg"),
            ("http://h:1/reel/", "/reels/a.jpg", "http://h:1/reel/reels/a.jpg"),
        ] {
            let root = Url::parse(root).expect("an address");
            assert_eq!(below(&root, path).expect("an address").to_string(), address);
        }
    }
}
