//! Which files there are and what is in them, for a server that says what the test wants.

use reel_files::limits::{KEPT_TIME, NAMES_MAX, VALUE_BYTES_MAX};
use reel_files::{
    AskError, ClassFacts, Group, MemberFacts, Node, NotOpened, Server, TitleFacts, Tree, TreeError,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server with these titles, two members and a class. Everything fails while `fails` is set.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    titles: Vec<TitleFacts>,
    fails: Option<AskError>,
    asked: Vec<String>,
}

impl Fake {
    fn with(titles: &[(&str, &str)]) -> Fake {
        let fake = Fake::default();
        let title = |(id, name): &(&str, &str)| TitleFacts {
            id: (*id).into(),
            name: (*name).to_owned(),
            seconds: 61.5,
            rate_bps: Some(5_000_000),
        };
        fake.0.lock().unwrap().titles = titles.iter().map(title).collect();
        fake
    }

    fn asked(&self, what: &str) -> Result<Vec<TitleFacts>, AskError> {
        let mut state = self.0.lock().unwrap();
        state.asked.push(what.to_owned());
        state.fails.clone().map_or_else(|| Ok(state.titles.clone()), Err)
    }

    /// What was asked since the last call.
    fn questions(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    fn fail(&self, error: Option<AskError>) {
        self.0.lock().unwrap().fails = error;
    }
}

impl Server for Fake {
    fn titles(&self, _until: Instant) -> Result<Vec<TitleFacts>, AskError> {
        self.asked("titles")
    }

    fn title(&self, id: &str, _until: Instant) -> Result<Option<TitleFacts>, AskError> {
        Ok(self.asked(&format!("title {id}"))?.into_iter().find(|title| *title.id == *id))
    }

    fn members(&self, _until: Instant) -> Result<Vec<MemberFacts>, AskError> {
        self.asked("members")?;
        let member = |member, state: &str| MemberFacts {
            member,
            state: state.to_owned(),
            request_us: 8000.0,
            mib_us: 5000.5,
        };
        Ok(vec![member(0, "present"), member(10, "missing")])
    }

    fn classes(&self, _until: Instant) -> Result<Vec<ClassFacts>, AskError> {
        self.asked("classes")?;
        let gold = ClassFacts {
            name: "gold".into(),
            kind: "periodic".to_owned(),
            share_permille: 700,
            network_permille: None,
        };
        Ok(vec![ClassFacts { name: "../etc".into(), ..gold.clone() }, gold])
    }

    fn set_classes(&self, _classes: &[ClassFacts], _until: Instant) -> Result<(), NotOpened> {
        panic!("no file is written");
    }

    fn more_viewers(&self, _until: Instant) -> Result<u64, AskError> {
        self.asked("capacity")?;
        Ok(17)
    }
}

/// A tree, and the simulated time in it.
struct Looking {
    tree: Tree<Fake>,
    now: Instant,
}

impl Looking {
    fn at(server: &Fake) -> Looking {
        Looking { tree: Tree::new(server.clone()), now: Instant::now() }
    }

    fn later(&mut self, time: Duration) {
        self.now += time;
    }

    fn find(&self, path: &str) -> Result<Node, TreeError> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(Node::Root, |node, name| self.tree.lookup(&node, name, self.now, self.now))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let nodes = self.tree.list(&self.find(path)?, self.now, self.now)?;
        Ok(nodes.iter().map(|node| node.name().into_owned()).collect())
    }

    fn text(&self, path: &str) -> Result<String, TreeError> {
        self.tree.text(&self.find(path)?, self.now, self.now)
    }
}

#[test]
fn every_file_has_one_value_and_a_newline() {
    let looking = Looking::at(&Fake::with(&[("a", "A film"), ("b", "B")]));
    assert_eq!(looking.list("").unwrap(), ["titles", "members", "classes", "streams", "capacity"]);
    assert_eq!(looking.list("titles").unwrap(), ["a", "b"]);
    assert_eq!(looking.list("members").unwrap(), ["0", "10"]);
    assert_eq!(looking.list("titles/a").unwrap(), ["name", "seconds", "rate"]);
    assert_eq!(looking.list("members/10").unwrap(), ["state", "price"]);
    assert_eq!(looking.list("classes/gold").unwrap(), ["kind", "share"]);
    for (path, text) in [
        ("titles/a/name", "A film\n"),
        ("titles/a/seconds", "61.5\n"),
        ("titles/b/rate", "5000000\n"),
        ("capacity", "17\n"),
        ("members/0/state", "present\n"),
        ("members/10/state", "missing\n"),
        ("members/10/price", "8000 5000.5\n"),
        ("classes/gold/kind", "periodic\n"),
        ("classes/gold/share", "700\n"),
    ] {
        assert_eq!(looking.text(path).unwrap(), text, "{path}");
    }
}

#[test]
fn what_is_not_there_and_what_is_something_else_are_told_apart() {
    let looking = Looking::at(&Fake::with(&[("a", "A")]));
    for path in ["none", "titles/none", "titles/a/share", "members/1", "members/010", "classes/none"] {
        assert_eq!(looking.find(path), Err(TreeError::NoEntry), "{path}");
    }
    assert_eq!(looking.find("capacity/a"), Err(TreeError::NoDirectory));
    assert_eq!(looking.list("titles/a/name"), Err(TreeError::NoDirectory));
    for path in ["", "titles", "titles/a"] {
        assert_eq!(looking.text(path), Err(TreeError::IsDirectory), "{path}");
    }
}

#[test]
fn a_title_that_cannot_be_played_has_no_rate() {
    let server = Fake::with(&[("a", "A")]);
    server.0.lock().unwrap().titles[0].rate_bps = None;
    let looking = Looking::at(&server);
    assert_eq!(looking.text("titles/a/rate"), Err(TreeError::NoValue));
    assert_eq!(looking.text("titles/a/name").unwrap(), "A\n");
}

/// A server that is not trusted: of another machine, or what another program says at its port.
#[test]
fn hostile_names_are_not_shown_and_hostile_values_are_one_line() {
    let long = "x".repeat(256);
    let longest = "y".repeat(255);
    let endless = "\u{e9}".repeat(VALUE_BYTES_MAX);
    let server = Fake::with(&[
        ("..", "A"),
        ("a/b", "A"),
        ("", "A"),
        ("c\nd", "A"),
        (&long, "A"),
        (&longest, "two\nlines\u{1b}[2J\0"),
        ("good", &endless),
    ]);
    let looking = Looking::at(&server);
    assert_eq!(looking.list("titles").unwrap(), ["good", &longest]);
    assert_eq!(looking.list("classes").unwrap(), ["gold"]);
    let text = looking.text(&format!("titles/{longest}/name")).unwrap();
    assert_eq!(text, "two\u{fffd}lines\u{fffd}[2J\u{fffd}\n");
    let text = looking.text("titles/good/name").unwrap();
    assert!(text.len() <= VALUE_BYTES_MAX && text.ends_with("\u{e9}\n"), "{} bytes", text.len());
}

#[test]
fn names_that_cannot_be_are_not_sent_to_the_server() {
    let server = Fake::with(&[("..", "A")]);
    let looking = Looking::at(&server);
    let titles = Node::Group(Group::Titles);
    for name in ["..", ".", "a/b", "a\nb", "\0", &"x".repeat(256)] {
        let found = looking.tree.lookup(&titles, name, looking.now, looking.now);
        assert_eq!(found, Err(TreeError::NoEntry), "{name:?}");
    }
    assert!(server.questions().is_empty());
}

#[test]
fn one_title_is_one_question_and_all_titles_are_one() {
    let names: Vec<String> = (0..10_000).map(|number| format!("title-{number}")).collect();
    let titles: Vec<_> = names.iter().map(|name| (name.as_str(), "A")).collect();
    let server = Fake::with(&titles);
    let mut looking = Looking::at(&server);
    looking.text("titles/title-77/rate").unwrap();
    looking.text("titles/title-77/name").unwrap();
    assert_eq!(server.questions(), ["title title-77"]);
    // A script that looks at all of them.
    let listed = looking.list("titles").unwrap();
    assert_eq!(listed.len(), 10_000);
    for title in &listed {
        looking.text(&format!("titles/{title}/seconds")).unwrap();
    }
    assert_eq!(server.questions(), ["titles"]);
    looking.later(KEPT_TIME);
    looking.text("titles/title-77/rate").unwrap();
    assert_eq!(server.questions(), ["title title-77"]);
}

#[test]
fn changes_are_seen_after_a_second() {
    let server = Fake::with(&[("a", "A"), ("b", "B")]);
    let mut looking = Looking::at(&server);
    assert_eq!(looking.list("titles").unwrap(), ["a", "b"]);
    let file = looking.find("titles/a/name").unwrap();
    server.0.lock().unwrap().titles.remove(0);
    assert_eq!(looking.list("titles").unwrap(), ["a", "b"]);
    looking.later(KEPT_TIME);
    assert_eq!(looking.list("titles").unwrap(), ["b"]);
    assert_eq!(looking.find("titles/a"), Err(TreeError::NoEntry));
    assert_eq!(looking.tree.text(&file, looking.now, looking.now), Err(TreeError::NoEntry));
}

#[test]
fn a_failure_is_told_for_a_second_and_the_server_is_asked_again() {
    let server = Fake::with(&[("a", "A")]);
    let mut looking = Looking::at(&server);
    server.fail(Some(AskError::Late));
    let late = Err(TreeError::Asked(AskError::Late));
    assert_eq!(looking.find("titles/a"), late);
    // The kernel asks again at once.
    looking.later(KEPT_TIME - Duration::from_millis(1));
    assert_eq!(looking.find("titles/a"), late);
    assert_eq!(server.questions(), ["title a"]);
    assert_eq!(looking.list("titles").map(drop), Err(TreeError::Asked(AskError::Late)));
    server.fail(None);
    looking.later(KEPT_TIME);
    assert_eq!(looking.list("titles").unwrap(), ["a"]);
    assert_eq!(looking.text("titles/a/name").unwrap(), "A\n");
}

#[test]
fn an_answer_that_is_late_is_not_waited_for_twice() {
    let server = Fake::with(&[("a", "A")]);
    let looking = Looking::at(&server);
    server.fail(Some(AskError::Late));
    let until = looking.now + 5 * KEPT_TIME;
    let find = |now| looking.tree.lookup(&Node::Group(Group::Titles), "a", now, now + 5 * KEPT_TIME);
    assert_eq!(find(looking.now), Err(TreeError::Asked(AskError::Late)));
    server.fail(None);
    assert_eq!(find(until), Err(TreeError::Asked(AskError::Late)));
    assert!(find(until + KEPT_TIME).is_ok());
    assert_eq!(server.questions(), ["title a", "title a"]);
}

#[test]
fn a_list_without_end_is_cut() {
    let names: Vec<String> = (0..NAMES_MAX + 5).map(|number| number.to_string()).collect();
    let titles: Vec<_> = names.iter().map(|name| (name.as_str(), "A")).collect();
    assert_eq!(Looking::at(&Fake::with(&titles)).list("titles").unwrap().len(), NAMES_MAX);
}

#[test]
fn names_are_looked_up_in_directories_of_files() {
    let looking = Looking::at(&Fake::with(&[("a", "A")]));
    let mut all = vec![Node::Root];
    let mut at = 0;
    while at < all.len() {
        let directory = all[at].clone();
        at += 1;
        if !directory.is_directory() {
            continue;
        }
        for node in looking.tree.list(&directory, looking.now, looking.now).unwrap() {
            assert_eq!(node.directory(), directory);
            let found = looking.tree.lookup(&directory, &node.name(), looking.now, looking.now);
            assert_eq!(found.unwrap(), node);
            all.push(node);
        }
    }
    assert_eq!(all.iter().filter(|node| !node.is_directory()).count(), 1 + 3 + 2 * 2 + 2);
}
